//! The commands in the groups in which `--help` lists them.

use std::fmt::Write;

use clap::CommandFactory;

use super::Args;

/// What each group is for, and its commands.
pub(crate) const GROUPS: [(&str, &[&str]); 4] = [
    ("Decide", &["compare", "tune", "recommend", "report"]),
    ("Look", &["schedulers", "devices", "host", "trace", "fidelity", "reproduce"]),
    ("Run", &["serve", "ctl", "pilot", "record", "verify"]),
    ("Build", &["sweep", "learn", "bench", "completions", "man"]),
];

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    let command = Args::command();
    let style = command.get_styles();
    let (header, literal) = (*style.get_header(), *style.get_literal());
    let mut groups = String::new();
    for (group, names) in GROUPS {
        // Writing to a string cannot fail.
        let _ = writeln!(groups, "{header}{group}:{header:#}");
        for name in names {
            let about = command.find_subcommand(name).and_then(|found| found.get_about()).cloned().unwrap_or_default();
            let _ = writeln!(groups, "  {literal}{name:<11}{literal:#}  {about}");
        }
        groups.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}
