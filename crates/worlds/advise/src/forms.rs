//! The forms in which systems keep a setting: files made from the commands that apply a result.

/// A form of the files that set a scheduler at every boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A file of udev rules.
    Udev,
    /// A part of a NixOS configuration.
    Nixos,
    /// A profile of tuned.
    Tuned,
    /// Tasks of an Ansible playbook.
    Ansible,
    /// A service of systemd, for systems without udev rules of their own.
    Systemd,
}

/// What a command sets: a path below `/sys`, and its value as a shell reads it.
struct Setting<'a> {
    value: &'a str,
    path: &'a str,
}

impl Form {
    /// All forms.
    pub const ALL: [Form; 5] = [Form::Udev, Form::Nixos, Form::Tuned, Form::Ansible, Form::Systemd];

    /// The name that `--format` takes.
    pub fn name(self) -> &'static str {
        match self {
            Form::Udev => "udev",
            Form::Nixos => "nixos",
            Form::Tuned => "tuned",
            Form::Ansible => "ansible",
            Form::Systemd => "systemd",
        }
    }

    /// The file of a drive from the commands that apply a result to it. Without commands a remark: there is nothing to set. `answer`
    /// stands above it.
    pub fn text(self, answer: &str, apply: &[String]) -> String {
        let mut remark = format!("# {answer}\n");
        // They hold for units, not for the drive, and systemd keeps them.
        for command in apply.iter().filter_map(|command| for_tenants(command)) {
            remark += &format!("# For tenants, once, as root: {command}\n");
        }
        let Some((rule, file)) = apply.iter().find_map(|command| rule_of(command)) else { return remark };
        let settings: Vec<Setting<'_>> = apply.iter().filter_map(|command| setting_of(command)).collect();
        let disk = settings.first().and_then(|first| first.path.split('/').nth(3)).unwrap_or_default();
        let own = match self {
            Form::Udev => format!("# {file}\n{rule}\n"),
            Form::Nixos => {
                let text = rule.replace("''", "'''").replace("${", "''${");
                format!("services.udev.extraRules = ''\n  {text}\n'';\n")
            }
            Form::Tuned => tuned(disk, &settings),
            Form::Ansible => format!(
                "- name: Set the I/O scheduler at every boot\n  ansible.builtin.copy:\n    dest: {file}\n    mode: \"0644\"\n    \
                 content: |\n      {rule}\n- name: Read the rules of udev again\n  ansible.builtin.command: udevadm control --reload\n\
                 - name: Set the I/O scheduler now\n  ansible.builtin.command: udevadm trigger --subsystem-match=block --action=change\n"
            ),
            Form::Systemd => systemd(disk, &settings),
        };
        remark + &own
    }
}

/// The rule and its file in the command that writes it.
fn rule_of(command: &str) -> Option<(String, &str)> {
    let (text, file) = command.strip_prefix("echo '")?.split_once("' | sudo tee /etc/")?;
    Some((text.replace("'\\''", "'"), &command[command.len() - file.len() - "/etc/".len()..]))
}

/// What a command sets now, of the drive.
fn setting_of(command: &str) -> Option<Setting<'_>> {
    let (value, path) = command.strip_prefix("echo ")?.split_once(" | sudo tee ")?;
    (path.starts_with("/sys/") && !path.ends_with("/io.prio.class")).then_some(Setting { value, path })
}

/// A command for the unit of a tenant, without `sudo`.
fn for_tenants(command: &str) -> Option<String> {
    if let Some(rest) = command.strip_prefix("sudo systemctl set-property ") {
        return Some(format!("systemctl set-property {rest}"));
    }
    let (set, path) = command.split_once(" | sudo tee ")?;
    path.ends_with("/io.prio.class").then(|| format!("{set} >{path}"))
}

fn tuned(disk: &str, settings: &[Setting<'_>]) -> String {
    let mut text = format!(
        "# /etc/tuned/io-scheduler/tuned.conf, for: tuned-adm profile io-scheduler\n# Add include= with the profile that is active \
         now.\n[main]\nsummary=I/O scheduler of {disk}\n"
    );
    let mut others = String::new();
    for Setting { value, path } in settings {
        match path.strip_suffix("/queue/scheduler") {
            Some(_) => text += &format!("[disk]\ndevices={disk}\nelevator={value}\n"),
            // What asks a shell for the drive's number is not for this file.
            None if value.starts_with('"') => others += &format!("# By a script: echo {value} >{path}\n"),
            None => others += &format!("{path}={value}\n"),
        }
    }
    if !others.is_empty() {
        text += &format!("[sysfs]\n{others}");
    }
    text
}

fn systemd(disk: &str, settings: &[Setting<'_>]) -> String {
    let mut text = format!(
        "# /etc/systemd/system/io-scheduler-{disk}.service, for: systemctl enable --now io-scheduler-{disk}\n[Unit]\n\
         Description=I/O scheduler of {disk}\nConditionPathExists=/sys/block/{disk}/queue/scheduler\n\n[Service]\nType=oneshot\n\
         RemainAfterExit=yes\n"
    );
    for Setting { value, path } in settings {
        let command = format!("echo {value} >{path}").replace('%', "%%").replace('$', "$$");
        text += &format!("ExecStart=/bin/sh -c '{command}'\n");
    }
    text + "\n[Install]\nWantedBy=multi-user.target\n"
}

#[cfg(test)]
mod tests {
    use dumbwaiter_scenario::SchedulerSpec;

    use super::*;
    use crate::apply::{TargetDrive, commands};
    use crate::provenance::DriveKind;

    fn apply() -> Vec<String> {
        let spec = SchedulerSpec::parse("bfq:low_latency=0").unwrap();
        commands(&TargetDrive::simulated(DriveKind::HardDisk), &spec, Some(64)).apply
    }

    #[test]
    fn every_form_sets_all_that_the_commands_set() {
        let apply = apply();
        for form in Form::ALL {
            let text = form.text("sdX: change mq-deadline to bfq", &apply);
            assert!(text.starts_with("# sdX: change mq-deadline to bfq\n"), "{text}");
            for part in ["bfq", "low_latency", "nr_requests", "64"] {
                assert!(text.contains(part), "{}: no {part}: {text}", form.name());
            }
            assert!(!text.contains("sudo"), "{text}");
        }
        let udev = Form::Udev.text("a", &apply);
        assert!(udev.contains("# /etc/udev/rules.d/99-zz-io-scheduler-sdX.rules\nACTION==\"add|change\", "), "{udev}");
        let tuned = Form::Tuned.text("a", &apply);
        assert!(tuned.contains("elevator=bfq\n[sysfs]\n/sys/block/sdX/queue/iosched/low_latency=0\n"), "{tuned}");
        let systemd = Form::Systemd.text("a", &apply);
        assert!(systemd.contains("ExecStart=/bin/sh -c 'echo bfq >/sys/block/sdX/queue/scheduler'\n"), "{systemd}");
    }

    #[test]
    fn commands_for_tenants_are_remarks() {
        let mut apply = apply();
        apply.push("sudo systemctl set-property db.slice 'IOWeight=800'".to_owned());
        apply.push("echo idle | sudo tee /sys/fs/cgroup/batch.slice/io.prio.class".to_owned());
        for form in Form::ALL {
            let text = form.text("a", &apply);
            let remarks = "# a\n# For tenants, once, as root: systemctl set-property db.slice 'IOWeight=800'\n\
                           # For tenants, once, as root: echo idle >/sys/fs/cgroup/batch.slice/io.prio.class\n";
            assert!(text.starts_with(remarks), "{text}");
            assert_eq!(text.matches("io.prio.class").count(), 1, "{text}");
        }
    }

    #[test]
    fn where_nothing_is_to_be_changed_there_is_a_remark_and_nothing_to_set() {
        for form in Form::ALL {
            assert_eq!(form.text("sda: keep none", &[]), "# sda: keep none\n");
        }
    }

    #[test]
    fn quotes_and_marks_of_a_shell_keep_their_meaning() {
        let spec = SchedulerSpec::parse("none+io.cost=on").or_else(|_| SchedulerSpec::parse("none+iocost=on"));
        let Ok(spec) = spec else { return };
        let apply = commands(&TargetDrive::simulated(DriveKind::Nvme), &spec, None).apply;
        let systemd = Form::Systemd.text("a", &apply);
        assert!(!systemd.contains("\"$(cat") || systemd.contains("\"$$(cat"), "{systemd}");
        assert!(Form::Udev.text("a", &apply).contains("/bin/sh -c 'echo"));
    }
}
