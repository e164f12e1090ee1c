//! The one way to write a scheduler around another.

/// The methods of a scheduler around another, `inner`: all those of [`Scheduler`](crate::Scheduler) but the ones after `except`,
/// which it has itself. A copy is a [`Clone`] of it.
#[macro_export]
macro_rules! forward_scheduler {
    ($inner:ident $(; except $($own:ident),+ $(,)?)?) => {
        $crate::forward_scheduler! { @rows $inner [$($($own)+)?] }
    };
    // A row is a name and its method. `self` is written here only, since it means what it means where it is written.
    (@rows $inner:ident $own:tt) => {
        $crate::forward_scheduler! { @each $own
            traits { fn traits(&self) -> $crate::Traits { self.$inner.traits() } }
            insert {
                fn insert(&mut self, id: $crate::RequestId, place: $crate::Place, ctx: &$crate::Context<'_>) {
                    self.$inner.insert(id, place, ctx);
                }
            }
            has_work { fn has_work(&self, hw_queue: usize) -> bool { self.$inner.has_work(hw_queue) } }
            next {
                fn next(&mut self, hw_queue: usize, ctx: &$crate::Context<'_>) -> $crate::Next {
                    self.$inner.next(hw_queue, ctx)
                }
            }
            complete {
                fn complete(&mut self, id: $crate::RequestId, ctx: &$crate::Context<'_>) -> bool {
                    self.$inner.complete(id, ctx)
                }
            }
            issued {
                fn issued(&mut self, id: $crate::RequestId, ctx: &$crate::Context<'_>) {
                    self.$inner.issued(id, ctx);
                }
            }
            requeued {
                fn requeued(&mut self, id: $crate::RequestId, ctx: &$crate::Context<'_>) {
                    self.$inner.requeued(id, ctx);
                }
            }
            merge {
                fn merge(&mut self, io: &$crate::Io, index: &$crate::MergeIndex, ctx: &$crate::Context<'_>) -> Option<$crate::Join> {
                    self.$inner.merge(io, index, ctx)
                }
            }
            allow_merge {
                fn allow_merge(&self, queued: $crate::RequestId, io: &$crate::Io, ctx: &$crate::Context<'_>) -> bool {
                    self.$inner.allow_merge(queued, io, ctx)
                }
            }
            merged {
                fn merged(&mut self, join: $crate::Join, ctx: &$crate::Context<'_>) {
                    self.$inner.merged(join, ctx);
                }
            }
            withdraw {
                fn withdraw(&mut self, id: $crate::RequestId, ctx: &$crate::Context<'_>) -> bool {
                    self.$inner.withdraw(id, ctx)
                }
            }
            absorbed {
                fn absorbed(&mut self, survivor: $crate::RequestId, absorbed: $crate::RequestId, ctx: &$crate::Context<'_>) {
                    self.$inner.absorbed(survivor, absorbed, ctx);
                }
            }
            follower {
                fn follower(&self, chosen: $crate::RequestId, ctx: &$crate::Context<'_>) -> Option<$crate::RequestId> {
                    self.$inner.follower(chosen, ctx)
                }
            }
            former { fn former(&self, id: $crate::RequestId) -> Option<$crate::RequestId> { self.$inner.former(id) } }
            latter { fn latter(&self, id: $crate::RequestId) -> Option<$crate::RequestId> { self.$inner.latter(id) } }
            limit { fn limit(&self, io: &$crate::Io, nr_requests: u32) -> u32 { self.$inner.limit(io, nr_requests) } }
            smallest_limit {
                fn smallest_limit(&self, nr_requests: u32) -> u32 { self.$inner.smallest_limit(nr_requests) }
            }
            event {
                fn event(&mut self, event: $crate::Event, ctx: &$crate::Context<'_>) {
                    self.$inner.event(event, ctx);
                }
            }
            timer { fn timer(&self) -> Option<$crate::Nanos> { self.$inner.timer() } }
            attach_oracle {
                fn attach_oracle(&mut self, oracle: &std::sync::Arc<dyn $crate::ServiceOracle>) {
                    self.$inner.attach_oracle(oracle);
                }
            }
            tunables { fn tunables(&self) -> &'static [$crate::Tunable] { self.$inner.tunables() } }
            get { fn get(&self, name: &str) -> Option<i128> { self.$inner.get(name) } }
            set { fn set(&mut self, name: &str, value: i128) { self.$inner.set(name, value); } }
            replayable { fn replayable(&mut self) -> Option<&mut dyn $crate::Replayable> { self.$inner.replayable() } }
            device_class { fn device_class(&self, id: $crate::RequestId) -> u8 { self.$inner.device_class(id) } }
            class_weights { fn class_weights(&self) -> Option<[u32; 3]> { self.$inner.class_weights() } }
            counters { fn counters(&self, count: &mut dyn FnMut(&'static str, u64)) { self.$inner.counters(count); } }
            describe { fn describe(&self, ctx: &$crate::Context<'_>) -> String { self.$inner.describe(ctx) } }
            clone_box { fn clone_box(&self) -> Box<dyn $crate::Scheduler> { Box::new(self.clone()) } }
        }
    };
    (@each $own:tt $($name:ident $method:tt)*) => {
        $($crate::forward_unless! { $name $own $method })*
    };
}

/// A method, unless the list has its name.
#[doc(hidden)]
#[macro_export]
macro_rules! forward_unless {
    (traits [traits $($rest:ident)*] $method:tt) => {};
    (insert [insert $($rest:ident)*] $method:tt) => {};
    (has_work [has_work $($rest:ident)*] $method:tt) => {};
    (next [next $($rest:ident)*] $method:tt) => {};
    (complete [complete $($rest:ident)*] $method:tt) => {};
    (issued [issued $($rest:ident)*] $method:tt) => {};
    (requeued [requeued $($rest:ident)*] $method:tt) => {};
    (merge [merge $($rest:ident)*] $method:tt) => {};
    (allow_merge [allow_merge $($rest:ident)*] $method:tt) => {};
    (merged [merged $($rest:ident)*] $method:tt) => {};
    (withdraw [withdraw $($rest:ident)*] $method:tt) => {};
    (absorbed [absorbed $($rest:ident)*] $method:tt) => {};
    (follower [follower $($rest:ident)*] $method:tt) => {};
    (former [former $($rest:ident)*] $method:tt) => {};
    (latter [latter $($rest:ident)*] $method:tt) => {};
    (limit [limit $($rest:ident)*] $method:tt) => {};
    (smallest_limit [smallest_limit $($rest:ident)*] $method:tt) => {};
    (event [event $($rest:ident)*] $method:tt) => {};
    (timer [timer $($rest:ident)*] $method:tt) => {};
    (attach_oracle [attach_oracle $($rest:ident)*] $method:tt) => {};
    (tunables [tunables $($rest:ident)*] $method:tt) => {};
    (get [get $($rest:ident)*] $method:tt) => {};
    (set [set $($rest:ident)*] $method:tt) => {};
    (replayable [replayable $($rest:ident)*] $method:tt) => {};
    (device_class [device_class $($rest:ident)*] $method:tt) => {};
    (class_weights [class_weights $($rest:ident)*] $method:tt) => {};
    (counters [counters $($rest:ident)*] $method:tt) => {};
    (describe [describe $($rest:ident)*] $method:tt) => {};
    (clone_box [clone_box $($rest:ident)*] $method:tt) => {};
    ($name:ident [$other:ident $($rest:ident)*] $method:tt) => {
        $crate::forward_unless! { $name [$($rest)*] $method }
    };
    ($name:ident [] { $($method:tt)* }) => { $($method)* };
}

#[cfg(test)]
mod tests {
    use crate::{Context, Nanos, RequestId, Requests, Scheduler, Tenants};

    /// Passes on everything.
    #[derive(Clone)]
    struct Plain {
        inner: Box<dyn Scheduler>,
    }

    #[deny(clippy::missing_trait_methods)]
    impl Scheduler for Plain {
        forward_scheduler!(inner);
    }

    /// Has one method of its own.
    #[derive(Clone)]
    struct High {
        inner: Box<dyn Scheduler>,
    }

    #[deny(clippy::missing_trait_methods)]
    impl Scheduler for High {
        forward_scheduler!(inner; except device_class, describe);

        fn device_class(&self, _id: RequestId) -> u8 {
            0
        }

        fn describe(&self, ctx: &Context<'_>) -> String {
            format!("high {}", self.inner.describe(ctx))
        }
    }

    /// Answers what no default does.
    #[derive(Clone)]
    struct Odd;

    impl Scheduler for Odd {
        fn insert(&mut self, _id: RequestId, _place: crate::Place, _ctx: &Context<'_>) {}

        fn has_work(&self, hw_queue: usize) -> bool {
            hw_queue == 3
        }

        fn next(&mut self, _hw_queue: usize, _ctx: &Context<'_>) -> crate::Next {
            crate::Next::WaitUntil(Nanos(7))
        }

        fn device_class(&self, id: RequestId) -> u8 {
            id.0 as u8
        }

        fn class_weights(&self) -> Option<[u32; 3]> {
            Some([3, 2, 1])
        }

        fn describe(&self, _ctx: &Context<'_>) -> String {
            "odd".to_owned()
        }

        fn clone_box(&self) -> Box<dyn Scheduler> {
            Box::new(self.clone())
        }
    }

    /// Names of the methods that a part of a source file has, at this depth.
    fn methods<'a>(source: &'a str, from: &str, before_name: &str) -> Vec<&'a str> {
        let part = source.split_once(from).unwrap().1;
        let part = part.split_once("\n}\n").unwrap().0;
        let named = part.lines().filter_map(|line| line.trim_start().strip_prefix(before_name));
        named.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap()).collect()
    }

    #[test]
    fn every_method_of_the_trait_is_passed_on() {
        let in_trait = methods(include_str!("scheduler.rs"), "pub trait Scheduler", "fn ");
        let arms = methods(include_str!("forward.rs"), "macro_rules! forward_unless", "(");
        assert!(in_trait.len() > 20);
        let missing: Vec<_> = in_trait.iter().filter(|name| !arms.contains(name)).collect();
        assert!(missing.is_empty(), "forward_unless! in forward.rs does not know {missing:?}");
        let rows = methods(include_str!("forward.rs"), "macro_rules! forward_scheduler", "");
        let missing: Vec<_> = in_trait.iter().filter(|name| !rows.contains(name)).collect();
        assert!(missing.is_empty(), "forward_scheduler! in forward.rs has no row for {missing:?}");
    }

    #[test]
    fn answers_are_those_of_the_inner_scheduler_unless_they_are_its_own() {
        let (requests, tenants) = (Requests::default(), Tenants::default());
        let ctx = Context { now: Nanos::ZERO, requests: &requests, tenants: &tenants, busy: false };
        let plain = Plain { inner: Box::new(Odd) };
        assert_eq!(
            (plain.has_work(3), plain.device_class(RequestId(2)), plain.describe(&ctx)),
            (true, 2, "odd".into())
        );
        let mut copy = High { inner: plain.clone_box() }.clone_box();
        assert_eq!((copy.device_class(RequestId(2)), copy.class_weights()), (0, Some([3, 2, 1])));
        assert_eq!((copy.next(0, &ctx), copy.describe(&ctx)), (crate::Next::WaitUntil(Nanos(7)), "high odd".into()));
    }
}
