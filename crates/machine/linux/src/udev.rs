//! Recognising a disk in a udev rule.

use std::path::Path;

/// The part of a udev rule that matches the disk of this name in sysfs: by the identity that the drive reports, because names
/// such as `sda` may change from one boot to the next; by name where it reports none.
pub fn matching(disk: &str) -> String {
    identified(&Path::new("/sys/block").join(disk)).unwrap_or_else(|| format!("KERNEL==\"{disk}\""))
}

fn identified(disk: &Path) -> Option<String> {
    // NVMe, SCSI and SATA, virtio-blk. A pattern's special characters would match more than they say.
    let named = |attribute: &str, key: &str| {
        let id = std::fs::read_to_string(disk.join(attribute)).ok()?.trim_end().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || " .:_-+/=".contains(c);
        (!id.trim().is_empty() && id.chars().all(plain)).then(|| format!("{key}==\"{id}\""))
    };
    let id = named("wwid", "ATTR{wwid}")
        .or_else(|| named("device/wwid", "ATTRS{wwid}"))
        .or_else(|| named("serial", "ATTR{serial}"))?;
    Some(format!("SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_matches_the_identity_that_a_disk_reports() {
        let folder = tempfile::tempdir().unwrap();
        let matched = |attribute: &str, id: &str| {
            let disk = tempfile::tempdir_in(folder.path()).unwrap();
            std::fs::create_dir(disk.path().join("device")).unwrap();
            std::fs::write(disk.path().join(attribute), id).unwrap();
            identified(disk.path())
        };
        let disk = "SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\"";
        assert_eq!(
            matched("wwid", "eui.0025385b71b00b2f\n"),
            Some(format!("{disk}, ATTR{{wwid}}==\"eui.0025385b71b00b2f\""))
        );
        let ata = "t10.ATA     ST1000DM003-1CH162       Z1D5ABCD";
        assert_eq!(matched("device/wwid", &format!("{ata}   \n")), Some(format!("{disk}, ATTRS{{wwid}}==\"{ata}\"")));
        assert_eq!(matched("serial", "vol-1\n"), Some(format!("{disk}, ATTR{{serial}}==\"vol-1\"")));
        for useless in ["", "\n", "any*\n", "a\"b\n", "it's\n"] {
            assert_eq!(matched("wwid", useless), None, "{useless:?}");
        }
    }
}
