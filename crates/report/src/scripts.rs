//! The scripts that draw charts, as `vega/README.md` says where they are from: Vega, Vega-Lite, and the interpreter of expressions that
//! needs no `eval`.

/// Vega and Vega-Lite, each defining a global object of its name.
pub const VEGA: &str = include_str!("../vega/vega.min.js");
pub const VEGA_LITE: &str = include_str!("../vega/vega-lite.min.js");

/// The interpreter is published as a module only.
const INTERPRETER: &str = include_str!("../vega/vega-interpreter.js");

const IMPORT: &str = "import { ascending, isString, DisallowedObjectProperties } from 'vega-util';";
const EXPORT: &str = "export { expression as expressionInterpreter };";

/// The interpreter as a script that defines `vegaInterpreter`.
pub fn interpreter() -> String {
    let body = INTERPRETER
        .replace(
            IMPORT,
            "const vegaInterpreter = (() => { const { ascending, isString, DisallowedObjectProperties } = vega;",
        )
        .replace(EXPORT, "return { expressionInterpreter: expression }; })();");
    let lines = body.lines().filter(|line| !line.starts_with("//# sourceMappingURL"));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sha2::{Digest, Sha256};

    #[test]
    fn the_interpreter_is_a_module_no_more() {
        assert!(INTERPRETER.contains(IMPORT) && INTERPRETER.contains(EXPORT));
        let script = interpreter();
        assert!(!script.contains("import ") && !script.contains("export "));
    }

    #[test]
    fn scripts_are_those_of_the_list() {
        let list = include_str!("../vega/SHA256SUMS");
        let texts =
            [("vega.min.js", VEGA), ("vega-lite.min.js", VEGA_LITE), ("vega-interpreter.js", INTERPRETER)];
        assert_eq!(list.lines().count(), texts.len());
        for (name, text) in texts {
            let sum: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(list.contains(&format!("{sum}  {name}\n")), "{name}: {sum}");
            assert!(!text.contains("</script"), "{name} ends the element that it is in");
            // Characters that a terminal would not show are spelled in files that are written, and a hash is of what is there.
            let is_shown = |letter: char| {
                matches!(letter, '\n' | ' '..='~') || !letter.is_ascii() && letter.escape_debug().count() == 1
            };
            assert!(text.chars().all(is_shown), "{name} has characters that are not shown");
        }
    }
}
