//! JSON on stdout: every document names its schema, a file in schemas/ that is generated from the type.
//!
//! ```text
//!   type of a command ─► serde     ─► the document
//!                     └► schemars  ─► schemas/NAME.schema.json    (`make reference` writes it, a test compares)
//! ```

use crate::failure::Failure;
use crate::terminal;
use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

/// What a command prints with `--json`.
pub trait Document: Serialize + JsonSchema {
    /// The schema is called `mmtwin-NAME/VERSION`.
    const NAME: &'static str;
    /// Changes when a reader of the form before would break.
    const VERSION: u32 = 1;
}

#[derive(JsonSchema, Serialize)]
struct Envelope<'a, T> {
    schema: String,
    /// Version of the program.
    mmtwin: &'static str,
    #[serde(flatten)]
    content: &'a T,
}

/// Prints a document.
pub fn print<T: Document>(content: &T) -> Result<(), Failure> {
    terminal::print(&text(content)?)
}

/// A document as text.
pub fn text<T: Document>(content: &T) -> Result<String, Failure> {
    let document = Envelope {
        schema: format!("mmtwin-{}/{}", T::NAME, T::VERSION),
        mmtwin: env!("CARGO_PKG_VERSION"),
        content,
    };
    Ok(serde_json::to_string_pretty(&document).context("JSON")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        calibrate, compare, doctor, explain, kernel, list, mrc, published, record, results, run, sensitivity,
        study, sweep, verify,
    };
    use lab::sweep::file::SweepFile;
    use schemars::generate::SchemaSettings;
    use serde_json::{Value, json};
    use std::path::Path;

    /// The schema of a document as it is written: no member but those that it names.
    fn schema<T: Document + 'static>(title: &str) -> (&'static str, Value) {
        let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let mut schema = generator.into_root_schema_for::<Envelope<'static, T>>().to_value();
        close(&mut schema);
        schema["title"] = title.into();
        schema["properties"]["schema"] = json!({ "const": format!("mmtwin-{}/{}", T::NAME, T::VERSION) });
        (T::NAME, schema)
    }

    /// Allows no members beside those that are named. What documents refer to is left open where it is flattened into others.
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                if object.contains_key("properties") && !object.contains_key("additionalProperties") {
                    object.insert("additionalProperties".into(), false.into());
                }
                object.values_mut().for_each(close);
            }
            Value::Array(values) => values.iter_mut().for_each(close),
            _ => {}
        }
    }

    /// Two studies print documents of one name: either of both. Each is a resource of its own, so that its references are within it.
    fn either(both: [(&'static str, Value); 2]) -> (&'static str, Value) {
        let [(name, first), (_, second)] = both;
        let resource = |number: u8, mut schema: Value| {
            schema["$id"] = format!("urn:mmtwin:{name}:{number}").into();
            schema
        };
        let (dialect, title) = (first["$schema"].clone(), first["title"].clone());
        let schemas = [resource(1, first), resource(2, second)];
        (name, json!({ "$schema": dialect, "title": title, "anyOf": schemas }))
    }

    /// `MMTWIN_WRITE_REFERENCE=1` writes them anew.
    #[test]
    fn schemas_are_those_of_the_types() {
        let all = [
            schema::<calibrate::View>("mmtwin calibrate --json: figures of machines that baseline rows pin"),
            schema::<compare::View>("mmtwin compare --json and mmtwin replay --json: arms over paired seeds"),
            schema::<kernel::diff::KernelDiff>(
                "mmtwin kernel diff --json: functions of two kernels, and the states in which they differ",
            ),
            schema::<kernel::Kernels>("mmtwin kernel list --json: kernel trees that were added as variants"),
            schema::<compare::Comparisons>("mmtwin compare A.json B.json --json: two documents as two sides"),
            schema::<doctor::View>("mmtwin doctor --json: what is wrong with a machine's memory manager"),
            schema::<explain::View>("mmtwin explain --json: what moved a metric between two kernels"),
            schema::<list::Lists>("mmtwin list --json: what there is"),
            schema::<mrc::View>("mmtwin mrc --json: miss-ratio curves"),
            schema::<published::View>("mmtwin published --json: predicted against published, cell by cell"),
            schema::<record::View>("mmtwin record --json: what was recorded"),
            schema::<results::View>("mmtwin results list --json: the runs of a results directory"),
            schema::<run::Runs>("mmtwin run --json: runs by themselves"),
            schema::<sensitivity::View>(
                "mmtwin sensitivity --json: how far results move with what nobody measured",
            ),
            schema::<sweep::View>(
                "mmtwin sweep --json: which values of settings to choose, and what they gain and cost",
            ),
            schema::<verify::View>(
                "mmtwin verify --json: counters of a real kernel beside those of the twin",
            ),
            either([
                schema::<study::equilibrium::View>("mmtwin study --json: what the runs of a study come to"),
                schema::<study::pid_filter::View>("mmtwin study --json: what the runs of a study come to"),
            ]),
        ];
        let file =
            SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<SweepFile>().to_value();
        for (name, schema) in all.into_iter().chain([("sweep-file", file)]) {
            let path =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../schemas/{name}.schema.json"));
            let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("MMTWIN_WRITE_REFERENCE").is_some() {
                std::fs::write(&path, text).unwrap();
            } else {
                let written = std::fs::read_to_string(&path).unwrap();
                assert!(
                    written == text,
                    "{}: not what the types say; `make reference` writes it",
                    path.display()
                );
            }
        }
    }
}
