//! Loop devices for tests that need a real block device.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device; dropping it removes it. Its queue settings are reset before and after: the kernel keeps a loop
/// device's settings for the next user of its number.
#[derive(Debug)]
pub struct LoopDevice {
    file: PathBuf,
    /// The file is ours and is removed too.
    remove_file: bool,
    path: PathBuf,
}

impl LoopDevice {
    /// Creates a loop device of `bytes` on a file in `dir` (`/dev/shm` for memory). Returns `None`, after a line
    /// `skipped: ...` on stderr, without root or loop devices.
    pub fn new(dir: &Path, bytes: u64) -> Option<LoopDevice> {
        static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let file = dir.join(format!("dumbwaiter-test-{}-{number}", std::process::id()));
        if let Err(e) = std::fs::File::create(&file).and_then(|f| f.set_len(bytes)) {
            eprintln!("skipped: no file for a loop device: {e}");
            return None;
        }
        let mut device = LoopDevice::over(&file, &[]);
        match &mut device {
            Some(device) => device.remove_file = true,
            None => _ = std::fs::remove_file(&file),
        }
        device
    }

    /// Creates a loop device on a file, with further options of `losetup`. Returns `None`, after a line `skipped: ...` on
    /// stderr, without root or loop devices.
    pub fn over(file: &Path, options: &[&str]) -> Option<LoopDevice> {
        let out = Command::new("losetup").args(["--find", "--show"]).args(options).arg(file).output();
        let error = match out {
            Ok(out) if out.status.success() => {
                let path = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
                let device = LoopDevice { file: file.to_owned(), remove_file: false, path };
                device.settle();
                return Some(device);
            }
            Ok(out) => String::from_utf8_lossy(&out.stderr).trim().to_owned(),
            Err(e) => e.to_string(),
        };
        eprintln!("skipped: no loop device (root is needed): {error}");
        None
    }

    /// Resets the queue to the kernel's defaults.
    fn settle(&self) {
        let file = |name: &str| self.sysfs().join("queue").join(name);
        let set = |name: &str, value: &str| {
            if let Err(e) = std::fs::write(file(name), value) {
                eprintln!("{}: {e}", file(name).display());
            }
        };
        // Switching from a scheduler to none sets nr_requests to the number of driver tags.
        set("scheduler", "mq-deadline");
        set("scheduler", "none");
        let most = std::fs::read_to_string(file("nr_requests")).unwrap_or_default();
        if let Ok(most) = most.trim().parse::<u32>() {
            // A value equal to the current one would have no effect.
            set("nr_requests", &(most - 1).to_string());
            set("nr_requests", &most.to_string());
        }
        for (name, value) in [("nomerges", "0"), ("rq_affinity", "1"), ("iostats", "1")] {
            set(name, value);
        }
    }

    /// The device, such as `/dev/loop0`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its backing file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Its directory in sysfs.
    pub fn sysfs(&self) -> PathBuf {
        Path::new("/sys/block").join(self.path.file_name().unwrap_or_default())
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        self.settle();
        let done = Command::new("losetup").arg("--detach").arg(&self.path).status();
        if !done.is_ok_and(|s| s.success()) {
            eprintln!("{} could not be detached", self.path.display());
        }
        if self.remove_file {
            let _ = std::fs::remove_file(&self.file);
        }
    }
}
