//! `dw.compare(..., via="serve")`: the runs are made on a served disk, in real time.

use dumbwaiter_realworld::Served;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// A served disk, and the options of the command that choose it.
pub(crate) struct ServedWorld {
    pub(crate) world: Served<'static>,
    pub(crate) options: Vec<(&'static str, String)>,
}

/// Takes `via` and `on` out of the keyword arguments. `None` without them: the runs are simulated.
pub(crate) fn take_served(keywords: &Bound<'_, PyDict>) -> PyResult<Option<ServedWorld>> {
    let (via, on) = (take_text(keywords, "via")?, take_text(keywords, "on")?);
    match via.as_deref() {
        None if on.is_some() => Err(errors::plain("on: expected via=\"serve\" beside it")),
        None => Ok(None),
        Some("serve") => {
            let mut options = vec![("--via", "serve".to_owned())];
            options.extend(on.clone().map(|target| ("--on", target)));
            let world = match on {
                None => Served::models(),
                Some(target) => Served::named(&target).map_err(errors::plain)?,
            };
            Ok(Some(ServedWorld { world, options }))
        }
        Some(other) => Err(errors::plain(format!(
            "via: {other:?} was found; expected \"serve\", or nothing for a simulation (the command runs on real drives)"
        ))),
    }
}

fn take_text(keywords: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<String>> {
    let Some(value) = keywords.get_item(name)? else { return Ok(None) };
    keywords.del_item(name)?;
    if value.is_none() {
        return Ok(None);
    }
    value.extract().map(Some).map_err(|_| errors::plain(format!("{name}: {value} was found; expected a text")))
}
