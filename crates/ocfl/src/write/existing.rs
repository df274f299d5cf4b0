//! Content of earlier versions, on which a new version is about to rely.

use fulgurite_digest::Algorithm;

use super::WriteError;
use super::version::copy;
use crate::inventory::Content;
use crate::object::{Object, ObjectError};

/// Reads the files of a content, and compares them with its digest. Without this, a new version
/// would state that it contains what is damaged or gone.
pub(super) fn check_content(object: &Object, content: &Content, algorithm: Algorithm) -> Result<(), WriteError> {
    for path in &content.paths {
        let damaged = |what| WriteError::DamagedContent { object: object.folder().to_owned(), path: path.to_string(), what };
        let mut file = match object.open(path) {
            Ok(file) => file,
            Err(ObjectError::Read { fault, .. }) if fault.is_missing() => return Err(damaged("is missing")),
            Err(error) => return Err(error.into()),
        };
        let (digests, _) = copy(path, &mut file, None, &[algorithm], object.folder())?;
        if digests.first() != Some(&content.digest) {
            return Err(damaged("does not have the digest that the inventory states"));
        }
    }
    Ok(())
}
