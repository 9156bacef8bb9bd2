//! Creates random UUIDs.

use model::Uuid;

use crate::Error;

/// Returns a new random UUID.
///
/// # Errors
/// Fails if the kernel gives no random bytes.
pub fn new_uuid() -> Result<Uuid, Error> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|errno| Error::Io("get random bytes".to_owned(), errno.into()))?;
    Ok(Uuid::from_random(bytes))
}
