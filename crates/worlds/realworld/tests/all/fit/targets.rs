//! Surveys of real files: what is refused, and that a fit of a short survey is a device file.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use dumbwaiter_block::Nanos;
use dumbwaiter_devices::parse;
use dumbwaiter_realworld::fit::{Drive, DriveOptions, Error, Options, device_file, fit, open, survey};

fn refusal(path: &Path) -> String {
    let opened = open(path, &DriveOptions::default());
    let found = opened
        .and_then(|mut opened| survey(&mut *opened.subject, &Options::default(), &AtomicBool::new(false), &mut |_| {}));
    match found {
        Err(Error::Refused(text)) => text,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("a survey of {}", path.display()),
    }
}

#[test]
fn what_cannot_be_surveyed_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (empty, small) = (folder.path().join("empty"), folder.path().join("small"));
    std::fs::write(&empty, b"").unwrap();
    std::fs::write(&small, vec![1; 1 << 20]).unwrap();
    assert!(refusal(&folder.path().join("missing")).contains("no such file"));
    assert!(refusal(folder.path()).contains("is a folder"));
    assert!(refusal(&empty).contains("0 bytes"));
    assert!(refusal(&small).contains("at least 8 MiB"));
    assert!(refusal(Path::new("hdd:no-such")).contains("hdd:st1000dm003"));
}

/// 16 MiB of data, in the folder of the build: a memory file system does no direct I/O.
fn file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::write(file.path(), vec![7; 16 << 20]).unwrap();
    file
}

#[test]
fn a_short_survey_of_a_file_gives_a_device_file() {
    let file = file();
    let mut drive = Drive::open(file.path(), &DriveOptions::default()).unwrap();
    let options = Options { time: Nanos::from_secs(2), virtual_time: false, ..Options::default() };
    let found = survey(&mut drive, &options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let fitted = fit(&found).unwrap();
    let model = parse(&device_file(&fitted), "my-drive.toml", "").unwrap();
    assert_eq!(model.facts().capacity_sectors, 16 << 11);
    assert!(fitted.held_back.points >= 5);
    // Nothing was written.
    assert!(std::fs::read(file.path()).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn a_survey_that_writes_fits_the_write_side() {
    let file = file();
    let options = DriveOptions { allow_writes: true, ..DriveOptions::default() };
    let mut drive = Drive::open(file.path(), &options).unwrap();
    let options = Options { time: Nanos::from_secs(3), allow_writes: true, virtual_time: false };
    let found = survey(&mut drive, &options, &AtomicBool::new(false), &mut |_| {}).unwrap();
    let fitted = fit(&found).unwrap();
    assert!(fitted.service_us.write_4k.is_some() && fitted.service_us.flush.is_some());
    parse(&device_file(&fitted), "my-drive.toml", "").unwrap();
}

#[test]
fn a_stopped_survey_gives_nothing() {
    let file = file();
    let mut drive = Drive::open(file.path(), &DriveOptions::default()).unwrap();
    let options = Options { virtual_time: false, ..Options::default() };
    let stop = AtomicBool::new(false);
    let found = survey(&mut drive, &options, &stop, &mut |step| stop.store(step.number == 2, Ordering::Relaxed));
    assert!(matches!(found, Err(Error::Interrupted)), "{found:?}");
}

/// A file that is cut short under the survey is a device that fails.
#[test]
fn a_device_that_fails_in_the_survey_ends_it() {
    let file = file();
    let mut drive = Drive::open(file.path(), &DriveOptions::default()).unwrap();
    let options = Options { time: Nanos::from_secs(4), virtual_time: false, ..Options::default() };
    let cut = |number| {
        if number == 3 {
            std::fs::OpenOptions::new().write(true).open(file.path()).unwrap().set_len(1 << 20).unwrap();
        }
    };
    let found = survey(&mut drive, &options, &AtomicBool::new(false), &mut |step| cut(step.number));
    let Err(Error::Device(text)) = found else { panic!("{found:?}") };
    assert!(text.contains("read of") && text.contains("failed"), "{text}");
}
