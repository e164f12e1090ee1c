use dumbwaiter_block::Setup;

use super::*;
use crate::noop::Noop;

/// A scheduler with every kind of setting; its model must begin with `model`.
static LEARNED: Entry = Entry {
    name: "learned",
    summary: "",
    source: "",
    tunables: crate::headway::TUNABLES,
    parameters: &[
        Parameter { name: "order", kind: ParameterKind::Word(&["short", "long"]), help: "" },
        Parameter { name: "model", kind: ParameterKind::File { required: true }, help: "" },
        Parameter { name: "notes", kind: ParameterKind::File { required: false }, help: "" },
    ],
    manual: "",
    make: |settings| {
        let model = settings.file("model")?.unwrap_or_default();
        if !model.starts_with(b"model") {
            return Err(settings.refused("model", "a file that begins with `model`"));
        }
        settings.file("notes")?;
        match settings.text("order") {
            Some("long") => factory(crate::headway::Headway::new),
            _ => factory(|_| Noop::default()),
        }
    },
};

fn refusal(text: &str) -> String {
    Choice::parse(text).err().unwrap_or_else(|| panic!("{text} is accepted")).to_string()
}

#[test]
fn a_release_that_is_none_is_refused_not_guessed() {
    for release in ["6", "6.banana", "6.1.x", "banana", "", "3.10", "6.", "-5.15"] {
        assert!(Choice::parse(&format!("mq-deadline:kernel={release}")).is_err(), "{release}");
    }
    for release in ["5.15", "6.1.0-18-amd64", "6.18.44-fc-v595", "6.12", "6.12.117+deb12-cloud-amd64"] {
        assert!(Choice::parse(&format!("mq-deadline:kernel={release}")).is_ok(), "{release}");
    }
}

#[test]
fn errors_name_scheduler_setting_value_and_what_is_expected() {
    let known: Vec<&str> = REGISTRY.iter().map(|e| e.name).collect();
    assert_eq!(
        refusal("mq-deadlin"),
        format!("unknown scheduler `mq-deadlin`; did you mean `mq-deadline`? known: {}", known.join(", "))
    );
    assert_eq!(
        refusal("mq-deadline:fifo_bach=3"),
        "scheduler `mq-deadline`: unknown setting `fifo_bach`; did you mean `fifo_batch`? known: kernel, read_expire, write_expire, fifo_batch, writes_starved, front_merges, async_depth, prio_aging_expire, compat_expiry"
    );
    assert_eq!(
        refusal("kyber:read_lat_nsec=-1"),
        "scheduler `kyber`: read_lat_nsec = `-1` is refused; expected a whole number from 0 to 18446744073709551615 (ns)"
    );
    assert!(refusal("kyber:read_lat_nsec=fast").contains("read_lat_nsec = `fast` is refused; expected a whole number"));
    assert_eq!(
        refusal("mq-deadline:kernel=two"),
        "scheduler `mq-deadline`: kernel = `two` is refused; expected a Linux release; behaviour differs at 6.18, 6.5, 6.1, 5.15, 5.13"
    );
    assert_eq!(
        refusal("bfq:v9"),
        "scheduler `bfq`: generation = `v9` is refused; expected mainline, v7r8, v1, original"
    );
    assert!(refusal("h-bfq:generation=x,low_latency=0").contains("expected v7r8, mainline, v1, original"));
    assert!(refusal("bfq:low_latency=0,v7r8").contains("`v7r8` is not a setting"));
    assert!(refusal("kyber:v7r8").contains("`v7r8` is not a setting"));
    assert_eq!(refusal("none:x=1"), "scheduler `none`: unknown setting `x`; it has no settings");
    assert_eq!(Choice::parse("bfq:v7r8,low_latency=0").unwrap().label(), "bfq:v7r8,low_latency=0");
}

#[test]
fn settings_round_trip() {
    for entry in REGISTRY {
        let mut s = Choice::parse(entry.name).unwrap().build(Setup::default());
        assert_eq!(s.tunables(), entry.tunables, "{}", entry.name);
        for t in entry.tunables {
            for value in [t.min.max(-1), t.default.max(4), t.min.max(0) + 1] {
                let value = value.min(t.max);
                s.set(t.name, value).unwrap();
                let read = s.get(t.name).unwrap();
                let rounded = t.unit == "ms" && read >= value && read < value + 4;
                let default_depth = t.name == "async_depth" && value == 0;
                assert!(read == value || rounded || default_depth, "{} {}: {value} -> {read}", entry.name, t.name);
            }
        }
    }
}

#[test]
fn a_model_file_is_read_when_the_scheduler_is_chosen() {
    let folder = std::env::temp_dir().join(format!("dumbwaiter-registry-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (good, bad) = (file("good", "model 1"), file("bad", "1 2 3"));
    let say = |settings: &str| Choice::of(&LEARNED, settings, "learned").err().map(|e| e.to_string());

    assert_eq!(say(&format!("model={good},order=long,slice_us=5")), None);
    assert_eq!(say("order=long").unwrap(), "scheduler `learned`: model is required; expected model=the path of a file");
    let refused = say(&format!("model={bad}")).unwrap();
    assert_eq!(
        refused,
        format!("scheduler `learned`: model = `{bad}` is refused; expected a file that begins with `model`")
    );
    let absent = folder.join("absent").display().to_string();
    assert!(say(&format!("model={absent}")).unwrap().starts_with("scheduler `learned`: model: cannot read "));
    assert!(say(&format!("model={good},notes={}", folder.display())).unwrap().contains("notes: cannot read"));
    assert!(say(&format!("model={good},order=sideways")).unwrap().contains("expected short, long"));
    assert!(say("model=").unwrap().contains("expected the path of a file"));

    // Once chosen it needs the file no more, and a refused change leaves it as it was.
    let mut choice = Choice::of(&LEARNED, &format!("model={good},order=long,slice_us=5"), "learned").unwrap();
    assert!(choice.with("model", &bad).is_err());
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(choice.build(Setup::default()).get("slice_us"), Some(5));
}

#[test]
fn a_hosts_kernel_is_that_of_schedulers_that_name_none() {
    let depth = |text: &str, release: &str| {
        let stack = Choice::parse(text).unwrap().on_kernel(release).build(Setup::default());
        stack.scheduler.get("async_depth")
    };
    // In 5.14 to 6.4 three quarters of the requests.
    assert_ne!(depth("mq-deadline", "6.18"), depth("mq-deadline", "6.3"));
    assert_eq!(depth("mq-deadline", "6.3"), depth("mq-deadline:6.3", "6.18"));
    // One that the scheduler does not know changes nothing.
    assert_eq!(depth("mq-deadline", "2.6.29"), depth("mq-deadline", "6.18"));
}
