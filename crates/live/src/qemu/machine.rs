//! The emulated machine: QEMU's command line, and a run of a guest.

use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Cache, Emulator, GivenFile, KernelFiles, QemuError, file_error, initramfs};

/// Time limit for a guest.
const LIMIT: Duration = Duration::from_secs(900);

/// QEMU options that derive time from the number of executed instructions, and hide the host.
const REPEATABLE: [&str; 16] = [
    "-accel",
    "tcg,thread=single",
    "-rtc",
    "base=2024-01-01,clock=vm",
    "-seed",
    "1",
    // CPU features from which the kernel infers which instructions are fast.
    "-cpu",
    "max,la57=off,erms=off,fsrm=off",
    "-nodefaults",
    "-no-user-config",
    "-display",
    "none",
    "-monitor",
    "none",
    "-no-reboot",
    "-nographic",
];

/// Kernel options for the same purpose. All of them are known to the kernel, because unknown ones would be
/// passed to init.
const KERNEL_OPTIONS: &str = "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable random.trust_cpu=on";

/// A machine that can be booted.
#[derive(Clone, Debug)]
pub struct Machine {
    pub memory_mib: u64,
    pub cpus: u16,
    /// Number of NUMA nodes, each with an equal share of CPUs and memory.
    pub nodes: u16,
    /// An instruction takes 2^`instruction_shift` nanoseconds (`-icount shift`).
    pub instruction_shift: u8,
    /// Additional options for the kernel command line.
    pub kernel_options: String,
}

/// What init of a guest is told.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// Its arguments.
    pub words: &'a [&'a str],
    /// Files that it finds there.
    pub given: &'a [GivenFile],
}

/// A file that the guest created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestFile {
    /// File name without directory.
    pub name: String,
    pub content: Vec<u8>,
}

impl Machine {
    /// Boots `kernel` in `emulator` with this program as init, which is given `task`, and returns the
    /// files that the guest sends. The guest's console goes to the file `console`; temporary files are in
    /// `cache`. If `interrupted` returns true, the machine is stopped.
    pub fn run(
        &self,
        emulator: &Emulator,
        kernel: &KernelFiles,
        task: Task,
        console: &Path,
        cache: &Cache,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Vec<GuestFile>, QemuError> {
        let place = cache.unfinished()?;
        let [archive, results] = ["initramfs", "results"].map(|name| place.path().join(name));
        initramfs::write(kernel, task.given, &archive)?;
        let serial = |path: &Path| format!("file:{}", path.display());
        let mut command = emulator.command()?;
        command.args(REPEATABLE);
        command.args(["-icount", &format!("shift={},sleep=off,align=off", self.instruction_shift)]);
        command.args(["-m", &self.memory_mib.to_string(), "-smp", &self.cpus.to_string()]);
        command.args(self.node_options());
        command.args(["-serial", &serial(console), "-serial", &serial(&results)]);
        command.arg("-kernel").arg(&kernel.vmlinuz).arg("-initrd").arg(&archive);
        let options = [KERNEL_OPTIONS, &self.kernel_options, "--", &task.words.join(" ")];
        command.args(["-append", &options.join(" ")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = command.spawn().map_err(file_error(Path::new("qemu-system-x86_64")))?;
        Emulation(child).wait(interrupted)?;
        let text = fs::read_to_string(&results).map_err(file_error(&results))?;
        super::guest::files(&text).map_err(|message| QemuError::Guest { message, console: console.into() })
    }

    /// QEMU options for memory and CPUs of each node, if there are several.
    fn node_options(&self) -> Vec<String> {
        let (mib, cpus) = (self.memory_mib / u64::from(self.nodes), self.cpus / self.nodes);
        let options = |node: u16| {
            let (first, last) = (node * cpus, (node + 1) * cpus - 1);
            [
                "-object".into(),
                format!("memory-backend-ram,id=m{node},size={mib}M"),
                "-numa".into(),
                format!("node,nodeid={node},memdev=m{node},cpus={first}-{last}"),
            ]
        };
        if self.nodes < 2 { Vec::new() } else { (0..self.nodes).flat_map(options).collect() }
    }
}

/// A running QEMU process; killed when dropped.
struct Emulation(Child);

impl Emulation {
    fn wait(mut self, interrupted: &dyn Fn() -> bool) -> Result<(), QemuError> {
        let failed = |message: String| QemuError::Failed { program: "qemu-system-x86_64".into(), message };
        let start = Instant::now();
        loop {
            if interrupted() {
                return Err(QemuError::Interrupted);
            }
            let status = self.0.try_wait().map_err(|error| failed(error.to_string()))?;
            match status {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let said = self.0.stderr.take().and_then(|said| std::io::read_to_string(said).ok());
                    return Err(failed(said.filter(|said| !said.is_empty()).unwrap_or(status.to_string())));
                }
                None if start.elapsed() > LIMIT => {
                    return Err(failed(format!("it did not finish within {} s", LIMIT.as_secs())));
                }
                None => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
