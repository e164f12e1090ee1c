//! A dense network from safetensors: `NAME.weight` and `NAME.bias` for each layer, as PyTorch's `state_dict` has them, and
//! optionally `in.mean` and `in.std`.

use safetensors::SafeTensors;
use safetensors::tensor::Dtype;

use super::Format;
use crate::ModelError;
use crate::dense::{LayerWeights, Scaling};
use crate::model::Weights;

const FORMAT: Format = Format::Safetensors;

/// Reads the layers, in the order of the numbers in their names.
pub(super) fn read(bytes: &[u8], inputs: usize) -> Result<Weights, ModelError> {
    crate::model::check_header(bytes)?;
    let file = SafeTensors::deserialize(bytes).map_err(|error| ModelError::Container(error.to_string()))?;
    let mut names: Vec<&str> = file.iter().filter_map(|(name, _)| name.strip_suffix(".weight")).collect();
    names.sort_by_key(|name| (number_in(name), *name));
    let values = |name: &str| -> Result<Vec<f32>, ModelError> {
        let tensor = file.tensor(name).map_err(|_| FORMAT.error(format!("`{name}` is missing")))?;
        if tensor.dtype() != Dtype::F32 {
            return Err(FORMAT.error(format!("`{name}` is {:?}; expected F32", tensor.dtype())));
        }
        Ok(tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect())
    };
    let mut layers = Vec::new();
    for name in &names {
        let weight = values(&format!("{name}.weight"))?;
        layers.push(LayerWeights { weight, bias: values(&format!("{name}.bias"))? });
    }
    let optional = |name: &str, otherwise: f32| match file.tensor(name) {
        Ok(_) => values(name),
        Err(_) => Ok(vec![otherwise; inputs]),
    };
    Ok(Weights::Dense { layers, scaling: Scaling { mean: optional("in.mean", 0.0)?, std: optional("in.std", 1.0)? } })
}

/// The first number in a name, as in `layers.4`.
fn number_in(name: &str) -> u64 {
    let digits: String =
        name.chars().skip_while(|c| !c.is_ascii_digit()).take_while(char::is_ascii_digit).take(9).collect();
    digits.parse().unwrap_or(0)
}
