//! When a certificate expires: the one field of X.509 that TLS doesn't look at for the server.
//!
//! ```text
//! Certificate { signed { [0] version?, serial, algorithm, issuer, validity { from, until }, … }, algorithm, signature }
//! ```

use der::asn1::{GeneralizedTime, UtcTime};
use der::{AnyRef, Decode, Reader, SliceReader, Tag};

/// The end of a certificate's validity, in seconds since 1970.
///
/// # Errors
/// Whatever isn't DER, or not a certificate.
pub(super) fn expires_s(certificate: &[u8]) -> der::Result<u64> {
    let mut reader = SliceReader::new(certificate)?;
    let until = reader.sequence(|certificate| {
        let until = certificate.sequence(|signed| {
            if signed.peek_tag()?.is_context_specific() {
                skip(signed, 1)?;
            }
            skip(signed, 3)?;
            let until = signed.sequence(|validity| {
                skip(validity, 1)?;
                match validity.peek_tag()? {
                    Tag::UtcTime => Ok(UtcTime::decode(validity)?.to_unix_duration()),
                    _ => Ok(GeneralizedTime::decode(validity)?.to_unix_duration()),
                }
            })?;
            skip_rest(signed)?;
            Ok(until)
        })?;
        skip(certificate, 2)?;
        Ok(until)
    })?;
    reader.finish(until.as_secs())
}

fn skip<'a>(reader: &mut impl Reader<'a>, fields: usize) -> der::Result<()> {
    (0..fields).try_for_each(|_| AnyRef::decode(reader).map(drop))
}

fn skip_rest<'a>(reader: &mut impl Reader<'a>) -> der::Result<()> {
    while !reader.is_finished() {
        skip(reader, 1)?;
    }
    Ok(())
}
