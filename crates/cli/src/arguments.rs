//! Arguments that several commands take.

use crate::failure::Failure;
use crate::this_machine;
use clap::Args;
use lab::scenario::load_machine;
use machine::Profile;
use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

/// How runs are made and kept.
#[derive(Args)]
pub struct SweepArguments {
    /// Seeds, 1 to N, the same for every variant [default: the scenario's]
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU32>,

    /// Runs at the same time; results do not depend on it [default: one a CPU]
    #[arg(long, value_name = "N")]
    pub jobs: Option<NonZeroUsize>,

    /// Results directory; runs that are there already are not made again
    #[arg(long, value_name = "DIR")]
    pub results: Option<PathBuf>,

    /// Make every run again and replace the results
    #[arg(long)]
    pub fresh: bool,

    /// Print JSON, see schemas/
    #[arg(long)]
    pub json: bool,
}

impl SweepArguments {
    /// How many threads to use.
    pub fn jobs(&self) -> usize {
        self.jobs.or_else(|| std::thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get)
    }
}

/// The machine and the kernel's settings.
#[derive(Args)]
pub struct SystemArguments {
    /// Machine: a name from `mmtwin list`, `this`, or a .toml file [default: the scenario's]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,

    /// Kernel setting, as in vm.stat_interval=10; may be given several times
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = parse_setting)]
    pub settings: Vec<(String, String)>,
}

fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or("expected KEY=VALUE, for example vm.percpu_pagelist_high_fraction=8")?;
    Ok((key.trim().to_string(), value.trim().to_string()))
}

impl SystemArguments {
    /// The settings; each may be given once.
    pub fn changes(&self) -> Result<BTreeMap<String, String>, Failure> {
        let mut changes = BTreeMap::new();
        for (key, value) in &self.settings {
            if let Some(earlier) = changes.insert(key.clone(), value.clone()) {
                let message =
                    format!("--set {key}={earlier} and --set {key}={value}: give each setting once");
                return Err(Failure::input(message));
            }
        }
        Ok(changes)
    }

    /// The machine's profile, `default` being used if none is named.
    pub fn profile(&self, default: &str) -> Result<Profile, Failure> {
        match self.machine.as_deref().unwrap_or(default) {
            this_machine::NAME => this_machine::profile(),
            name => Ok(load_machine(name)?),
        }
    }
}
