//! Names of objects in Python: `str`, or `bytes`. Bytes that aren't UTF-8 become lone surrogates,
//! as in names of files (PEP 383).

use fulgurite_domain::ObjectName;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

const ERRORS: &str = "surrogateescape";

/// A name given by Python.
pub(crate) fn from_python(name: &Bound<'_, PyAny>) -> PyResult<ObjectName> {
    if let Ok(bytes) = name.cast::<PyBytes>() {
        return Ok(ObjectName(bytes.as_bytes().to_vec()));
    }
    let text = name.cast::<PyString>().map_err(|_| PyTypeError::new_err("a name is a str or bytes"))?;
    match text.to_cow() {
        Ok(text) => Ok(ObjectName(text.as_bytes().to_vec())),
        Err(_) => Ok(ObjectName(text.call_method1("encode", ("utf-8", ERRORS))?.extract()?)),
    }
}

/// A name for Python.
pub(crate) fn to_python<'py>(py: Python<'py>, name: &ObjectName) -> PyResult<Bound<'py, PyString>> {
    match str::from_utf8(&name.0) {
        Ok(text) => Ok(PyString::new(py, text)),
        Err(_) => Ok(PyBytes::new(py, &name.0).call_method1("decode", ("utf-8", ERRORS))?.cast_into()?),
    }
}
