Entry {
    name: "reads-first",
    summary: "reads in order of arrival, one write after every few",
    source: "an example",
    tunables: reads_first::TUNABLES,
    parameters: &[],
    manual: include_str!("../reads_first.md"),
    make: |_| factory(|_| reads_first::ReadsFirst::default()),
}
