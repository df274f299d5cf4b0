//! What a validator can find, with the codes of the specification.

use std::fmt;

use fulgurite_digest::Algorithm;

use crate::moment::MomentFault;
use crate::spec::{SpecVersion, VersionName};

/// A validation code of OCFL: an error (a broken MUST) or a warning (a broken SHOULD).
///
/// Source: OCFL 1.1, validation codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// An error, such as `E001`.
    E(u16),
    /// A warning, such as `W001`.
    W(u16),
}

impl Code {
    /// True for errors.
    #[must_use]
    pub fn is_error(self) -> bool {
        matches!(self, Self::E(_))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::E(number) => write!(f, "E{number:03}"),
            Self::W(number) => write!(f, "W{number:03}"),
        }
    }
}

/// Text from outside, shortened so that a report stays small whatever an object contains. It is
/// displayed in quotation marks and with escapes, so that no terminal obeys it.
#[derive(Clone, PartialEq, Eq)]
pub struct Excerpt {
    text: Box<str>,
    is_cut: bool,
}

impl Excerpt {
    /// Most bytes that are kept: enough for any digest and most paths.
    pub const BYTES_MAX: usize = 300;

    /// The text that was kept.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<&str> for Excerpt {
    fn from(text: &str) -> Self {
        let end = text.floor_char_boundary(Self::BYTES_MAX);
        Self { text: text[..end].into(), is_cut: end < text.len() }
    }
}

impl fmt::Display for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}{}", self.text, if self.is_cut { "..." } else { "" })
    }
}

impl fmt::Debug for Excerpt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Keys of inventories that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// The object's identifier.
    Id,
    /// The specification that the inventory follows.
    Type,
    /// The algorithm of manifest and states.
    DigestAlgorithm,
    /// The newest version.
    Head,
    /// Digests and content paths.
    Manifest,
    /// The versions.
    Versions,
}

impl Key {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Type => "type",
            Self::DigestAlgorithm => "digestAlgorithm",
            Self::Head => "head",
            Self::Manifest => "manifest",
            Self::Versions => "versions",
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! problems {
    ($($(#[$meta:meta])* [$code:expr] $text:literal, $name:ident $({ $($(#[$field_meta:meta])* $field:ident: $kind:ty),+ $(,)? })?;)+) => {
        /// A problem of an object or of a storage root.
        #[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
        #[non_exhaustive]
        pub enum Problem {
            $($(#[$meta])* #[error($text)] $name $({ $($(#[$field_meta])* $field: $kind),+ })?,)+
        }

        impl Problem {
            /// Its code.
            #[must_use]
            pub fn code(&self) -> Code {
                #[allow(unused_variables)]
                match self {
                    $(Self::$name $({ $($field),+ })? => $code,)+
                }
            }
        }
    };
}

use Code::{E, W};

problems! {
    // The object's folder.
    /// A file or folder that no object may contain.
    [E(1)] "the object's folder contains {name}, which OCFL does not allow there", UnexpectedInObject {
        /// Its name.
        name: Excerpt
    };
    /// No declaration.
    [E(3)] "the object has no version declaration, such as 0=ocfl_object_1.1", NoDeclaration;
    /// Several declarations.
    [E(3)] "the object has {count} version declarations instead of one", SeveralDeclarations {
        /// How many.
        count: usize
    };
    /// A declaration of an OCFL version that this crate doesn't know.
    [E(4)] "the declaration {name} is of no version of OCFL that is known here: 1.0 and 1.1", UnknownDeclaration {
        /// Its name.
        name: Excerpt
    };
    /// A declaration that doesn't begin with `0=`.
    [E(5)] "the name of the declaration {name} does not begin with 0=", DeclarationTag {
        /// Its name.
        name: Excerpt
    };
    /// A declaration of something that isn't an object.
    [E(6)] "the declaration {name} is not of an object: 0=ocfl_object_ and a version is expected", DeclarationValue {
        /// Its name.
        name: Excerpt
    };
    /// The declaration's text differs from its name.
    [E(7)] "the declaration's text is not {expected:?} and a line end", DeclarationText {
        /// What it should be.
        expected: String
    };
    /// No versions.
    [E(8)] "the object has no versions", NoVersions;
    /// The first version isn't 1.
    [E(9)] "the first version is {first} instead of version 1", FirstVersion {
        /// The first version.
        first: VersionName
    };
    /// A version is missing from the sequence.
    [E(10)] "version {number} is missing although later versions exist", VersionGap {
        /// The missing version.
        number: u32
    };
    /// A number too big for its padding.
    [E(11)] "the version {name} has the length of padded names such as {first}, but no leading zero", PaddingFull {
        /// The name.
        name: VersionName,
        /// The first version.
        first: VersionName
    };
    /// Folders with different padding.
    [E(12)] "the version folder {name} is not named in the way of {first}", FolderConvention {
        /// The name.
        name: VersionName,
        /// The first version.
        first: VersionName
    };
    /// Versions of an inventory with different padding.
    [E(13)] "the version {name} is not named in the way of {first}", VersionConvention {
        /// The name.
        name: VersionName,
        /// The first version.
        first: VersionName
    };
    /// A file beside the inventory of a version.
    [E(15)] "the version folder contains the file {name}; only the inventory and its sidecar may be there", UnexpectedInVersion {
        /// Its name.
        name: Excerpt
    };
    /// The name of the content folder contains a slash.
    [E(17)] "contentDirectory is {value}, which contains a slash", ContentDirectorySlash {
        /// The value.
        value: Excerpt
    };
    /// The name of the content folder is a dot or two.
    [E(18)] "contentDirectory is {value}, which is not the name of a folder", ContentDirectoryDots {
        /// The value.
        value: Excerpt
    };
    /// The name of the content folder is no name.
    [E(108)] "contentDirectory is {value}, which is not the name of a folder", ContentDirectoryForm {
        /// The value.
        value: Excerpt
    };
    /// The content folder was not named so in the first version.
    [E(19)] "contentDirectory is {value} here, but not in the inventory of the first version", ContentDirectoryLate {
        /// The value here.
        value: Excerpt
    };
    /// The content folder changed its name.
    [E(20)] "contentDirectory is {value} here, but {root} in the object's inventory", ContentDirectoryChanged {
        /// The value here.
        value: Excerpt,
        /// The value in the object's inventory.
        root: Excerpt
    };
    /// A file that the inventory doesn't list.
    [E(23)] "the file {path} is not in the manifest", NotInManifest {
        /// Its content path.
        path: Excerpt
    };
    /// An empty folder below a content folder.
    [E(24)] "the folder is empty", EmptyContentFolder;
    /// An algorithm that OCFL doesn't allow for content.
    [E(25)] "digestAlgorithm is {value} instead of sha512 or sha256", DigestAlgorithm {
        /// The value.
        value: Excerpt
    };
    /// A digest with the wrong digits.
    [match algorithm { Algorithm::Sha1 => E(29), Algorithm::Sha256 => E(30), Algorithm::Sha512 => E(31), Algorithm::Blake2b512 => E(32), _ => E(57) }] "{value} is not a {algorithm} digest in hexadecimal digits", DigestForm {
        /// The algorithm.
        algorithm: Algorithm,
        /// The value.
        value: Excerpt
    };
    /// Not JSON.
    [E(33)] "the inventory is not JSON: {reason}", NotJson {
        /// What the parser found.
        reason: String
    };
    /// Not a JSON object.
    [E(33)] "the inventory is not a JSON object", NotAnObject;
    /// A key occurs twice.
    [E(33)] "the key {key} occurs more than once", RepeatedKey {
        /// The key.
        key: Excerpt
    };
    /// A key is missing.
    [if matches!(key, Key::Manifest) { E(41) } else if matches!(key, Key::Versions) { E(43) } else { E(36) }] "the key {key} is missing", MissingKey {
        /// Which.
        key: Key
    };
    /// The identifier is not a text, or empty.
    [E(37)] "id is not a text with at least one character", IdForm;
    /// The identifier differs between inventories.
    [E(37)] "id is {here} here, but {root} in the object's inventory", IdDiffers {
        /// The identifier here.
        here: Excerpt,
        /// The identifier of the object's inventory.
        root: Excerpt
    };
    /// The identifier changed between versions.
    [E(110)] "the object's id changed from {here} to {root}", IdChanged {
        /// The identifier here.
        here: Excerpt,
        /// The identifier of the object's inventory.
        root: Excerpt
    };
    /// Two objects have one identifier.
    [E(37)] "another object of this storage root has the id {id} too", IdRepeated {
        /// The identifier.
        id: Excerpt
    };
    /// The type is of no known inventory.
    [E(38)] "type is {value}, not the inventory of a version of OCFL that is known here", TypeValue {
        /// The value.
        value: Excerpt
    };
    /// The type contradicts the declaration.
    [E(38)] "type is of OCFL {inventory}, but the object declares OCFL {declared}", TypeDiffers {
        /// The inventory's version.
        inventory: SpecVersion,
        /// The declared version.
        declared: SpecVersion
    };
    /// The head is not the newest version.
    [E(40)] "head is {head}, but the newest version is {newest}", HeadNotNewest {
        /// The head.
        head: Excerpt,
        /// The newest version.
        newest: VersionName
    };
    /// The head is no version.
    [E(40)] "head is not the name of a version", HeadForm;
    /// The inventory in a version's folder is of another version.
    [E(40)] "head is {head} in the folder of {folder}", HeadOfOtherVersion {
        /// The inventory's head.
        head: VersionName,
        /// The folder.
        folder: VersionName
    };
    /// The manifest is no JSON object.
    [if *spec == SpecVersion::V1_0 { E(41) } else { E(106) }] "manifest is not a JSON object", ManifestForm {
        /// The inventory's specification.
        spec: SpecVersion
    };
    /// A content path outside of the content folders.
    [E(42)] "the content path {path} does not begin with a version of the object and its content folder", ContentPathPlace {
        /// The path.
        path: Excerpt
    };
    /// The versions are no JSON object.
    [E(44)] "versions is not a JSON object", VersionsForm;
    /// A version folder that the inventory doesn't know.
    [E(46)] "the inventory does not contain the version of the folder {name}", FolderWithoutVersion {
        /// The folder.
        name: VersionName
    };
    /// A version without a folder.
    [E(46)] "version {name} has no folder", VersionWithoutFolder {
        /// The version.
        name: VersionName
    };
    /// A version's key is no version's name.
    [E(46)] "{name} in versions is not the name of a version, such as v1", VersionNameForm {
        /// The key.
        name: Excerpt
    };
    /// A version is no JSON object.
    [E(47)] "version {version} is not a JSON object", VersionForm {
        /// The version.
        version: VersionName
    };
    /// A version without creation time.
    [E(48)] "version {version} has no created", NoCreated {
        /// The version.
        version: VersionName
    };
    /// A version without state.
    [E(48)] "version {version} has no state", NoState {
        /// The version.
        version: VersionName
    };
    /// A creation time that is no text.
    [E(49)] "created of version {version} is not a text", CreatedForm {
        /// The version.
        version: VersionName
    };
    /// A creation time that is no time.
    [E(49)] "created of version {version} is {value}: {fault}", Created {
        /// The version.
        version: VersionName,
        /// The value.
        value: Excerpt,
        /// What is wrong with it.
        fault: MomentFault
    };
    /// A state that is no JSON object.
    [E(50)] "state of version {version} is not a JSON object", StateForm {
        /// The version.
        version: VersionName
    };
    /// A state with a digest that the manifest lacks.
    [E(50)] "state of version {version} has the digest {digest}, which the manifest does not have in this spelling", StateDigest {
        /// The version.
        version: VersionName,
        /// The digest.
        digest: Excerpt
    };
    /// A state with a repeated digest.
    [E(50)] "state of version {version} has the digest {digest} more than once", StateDigestRepeated {
        /// The version.
        version: VersionName,
        /// The digest.
        digest: Excerpt
    };
    /// Logical paths that are no list of texts.
    [E(51)] "the logical paths of {digest} in version {version} are not a list of texts", LogicalPathsForm {
        /// The version.
        version: VersionName,
        /// The digest.
        digest: Excerpt
    };
    /// A logical path with an unusable part.
    [E(52)] "the logical path {path} of version {version} has a part that is empty, . or ..", LogicalPathPart {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// A logical path that begins or ends with a slash.
    [E(53)] "the logical path {path} of version {version} is empty, or begins or ends with a slash", LogicalPathSlash {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// A user that is no JSON object.
    [E(54)] "user of version {version} is not a JSON object", UserForm {
        /// The version.
        version: VersionName
    };
    /// A user without a name.
    [E(54)] "user of version {version} has no name, or one that is not a text", UserName {
        /// The version.
        version: VersionName
    };
    /// An address that is no text.
    [E(54)] "the user's address in version {version} is not a text", UserAddressForm {
        /// The version.
        version: VersionName
    };
    /// The fixity block is no JSON object.
    [if *spec == SpecVersion::V1_0 { E(56) } else { E(111) }] "fixity is not a JSON object", FixityForm {
        /// The inventory's specification.
        spec: SpecVersion
    };
    /// The fixity of an algorithm is no JSON object.
    [E(57)] "fixity of {algorithm} is not a JSON object", FixityBlockForm {
        /// The algorithm.
        algorithm: Excerpt
    };
    /// Content paths of a fixity block that are no list of texts.
    [E(57)] "the content paths of {digest} in fixity of {algorithm} are not a list of texts", FixityPathsForm {
        /// The algorithm.
        algorithm: Excerpt,
        /// The digest.
        digest: Excerpt
    };
    /// A content path that only the fixity block has.
    [E(57)] "the content path {path} in fixity of {algorithm} is not in the manifest", FixityPathUnknown {
        /// The algorithm.
        algorithm: Excerpt,
        /// The path.
        path: Excerpt
    };
    /// A length that is no number.
    [E(57)] "{value} in fixity of size is not a number of bytes", FixitySize {
        /// The value.
        value: Excerpt
    };
    /// An inventory without sidecar.
    [E(58)] "the inventory has no sidecar {name}", NoSidecar {
        /// Its expected name.
        name: String
    };
    /// A sidecar of another algorithm.
    [E(59)] "the inventory's sidecar is {found} instead of {expected}", SidecarAlgorithm {
        /// What is there.
        found: Excerpt,
        /// What is expected.
        expected: String
    };
    /// An inventory that is not the one of its sidecar.
    [E(60)] "the inventory's digest is {computed}, but its sidecar says {stated}", InventoryDigest {
        /// The inventory's digest.
        computed: String,
        /// The digest in the sidecar.
        stated: Excerpt
    };
    /// A sidecar of another form.
    [E(61)] "the sidecar {name} does not consist of a digest, space and inventory.json", SidecarForm {
        /// Its name.
        name: String
    };
    /// No inventory.
    [E(63)] "the object has no inventory.json", NoInventory;
    /// The newest version has another inventory.
    [E(64)] "the object's inventory differs from the inventory of the newest version, {head}", InventoryDiffers {
        /// The newest version.
        head: VersionName
    };
    /// A version's state differs between inventories.
    [E(66)] "the logical path {path} of version {version} has other content in the object's inventory than here", StateDiffers {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// A logical path that the object's inventory lacks.
    [E(66)] "the logical path {path} of version {version} is not in the object's inventory", StatePathGone {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// A logical path that only the object's inventory has.
    [E(66)] "the logical path {path} of version {version} is only in the object's inventory", StatePathAdded {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// An inventory lacks a version that it should have.
    [E(66)] "the inventory lacks version {version}", VersionMissing {
        /// The version.
        version: VersionName
    };
    /// A file among an object's extensions.
    [E(67)] "the folder of extensions contains {name}, which is not a folder", FileInExtensions {
        /// Its name.
        name: Excerpt
    };
    /// Content that is not there.
    [E(92)] "the content {path} is missing", ContentMissing {
        /// The content path.
        path: Excerpt
    };
    /// Content with another digest.
    [E(92)] "the content's {algorithm} digest is {computed}, but the manifest of {inventory} says {stated}", ContentDigest {
        /// The algorithm.
        algorithm: Algorithm,
        /// The content's digest.
        computed: String,
        /// The manifest's digest.
        stated: String,
        /// The inventory.
        inventory: String
    };
    /// Content paths that are no list of texts, or an empty one.
    [E(92)] "the content paths of {digest} are not a list of at least one text", ContentPathsForm {
        /// The digest.
        digest: Excerpt
    };
    /// Content with a digest that the fixity block contradicts.
    [E(93)] "the content's {algorithm} digest is {computed}, but fixity in {inventory} says {stated}", FixityDigest {
        /// The algorithm.
        algorithm: Algorithm,
        /// The content's digest.
        computed: String,
        /// The digest in the fixity block.
        stated: String,
        /// The inventory.
        inventory: String
    };
    /// Content with a length that the fixity block contradicts.
    [E(93)] "the content has {bytes} bytes, but fixity in {inventory} says {stated}", FixityLength {
        /// Bytes of the content.
        bytes: u64,
        /// Bytes in the fixity block.
        stated: u64,
        /// The inventory.
        inventory: String
    };
    /// Content of the fixity block that is not there.
    [E(93)] "the content {path} in fixity of {algorithm} is missing", FixityContentMissing {
        /// The algorithm.
        algorithm: Excerpt,
        /// The content path.
        path: Excerpt
    };
    /// A message that is no text.
    [E(94)] "message of version {version} is not a text", MessageForm {
        /// The version.
        version: VersionName
    };
    /// A logical path that occurs twice.
    [E(95)] "the logical path {path} occurs more than once in version {version}", LogicalPathRepeated {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt
    };
    /// A logical path that is both a file and a folder.
    [E(95)] "the logical path {path} of version {version} is a file, and a folder of {below}", LogicalPathFolder {
        /// The version.
        version: VersionName,
        /// The path.
        path: Excerpt,
        /// A path below it.
        below: Excerpt
    };
    /// A digest that occurs twice in the manifest.
    [E(96)] "the digest {digest} occurs more than once in the manifest", ManifestDigestRepeated {
        /// The digest.
        digest: Excerpt
    };
    /// A digest that occurs twice in the fixity block.
    [E(97)] "the digest {digest} occurs more than once in fixity of {algorithm}", FixityDigestRepeated {
        /// The algorithm.
        algorithm: Excerpt,
        /// The digest.
        digest: Excerpt
    };
    /// A content path with an unusable part.
    [E(99)] "the content path {path} has a part that is empty, . or ..", ContentPathPart {
        /// The path.
        path: Excerpt
    };
    /// A content path that begins or ends with a slash.
    [E(100)] "the content path {path} is empty, or begins or ends with a slash", ContentPathSlash {
        /// The path.
        path: Excerpt
    };
    /// A content path that occurs twice.
    [E(101)] "the content path {path} occurs more than once", ContentPathRepeated {
        /// The path.
        path: Excerpt
    };
    /// A content path that is both a file and a folder.
    [E(101)] "the content path {path} is a file, and a folder of {below}", ContentPathFolder {
        /// The path.
        path: Excerpt,
        /// A path below it.
        below: Excerpt
    };
    /// A key that OCFL doesn't have.
    [E(102)] "the inventory has the key {key}, which OCFL does not have", UnknownKey {
        /// The key.
        key: Excerpt
    };
    /// A version of an older specification than the one before.
    [E(103)] "the inventory is of OCFL {here}, but an earlier one is of OCFL {earlier}", OlderSpec {
        /// The version here.
        here: SpecVersion,
        /// The earlier one.
        earlier: SpecVersion
    };
    /// A version name without `v`.
    [E(104)] "the version {name} does not begin with v", VersionNameTag {
        /// The name.
        name: Excerpt
    };
    /// A version name without a number.
    [E(105)] "the version {name} has no positive number", VersionNameNumber {
        /// The name.
        name: Excerpt
    };
    /// Content that no version uses.
    [if *spec == SpecVersion::V1_0 { E(50) } else { E(107) }] "no version uses the digest {digest} of the manifest", ManifestUnused {
        /// The inventory's specification.
        spec: SpecVersion,
        /// The digest.
        digest: Excerpt
    };
    /// A symbolic link.
    [E(90)] "{name} is a symbolic link", SymbolicLink {
        /// Its name.
        name: Excerpt
    };
    /// Two names of one file.
    [E(90)] "the file is a hard link to {other}", HardLink {
        /// The other name.
        other: Excerpt
    };
    /// Something that is neither file nor folder.
    [E(89)] "{name} is neither a file nor a folder", SpecialFile {
        /// Its name.
        name: Excerpt
    };

    // Storage roots.
    /// No declaration of a storage root.
    [E(69)] "the folder has no declaration of a storage root, such as 0=ocfl_1.1", NoRootDeclaration;
    /// A layout file of another form.
    [E(70)] "ocfl_layout.json is not a JSON object with extension and description", LayoutForm;
    /// A layout that can't be registered.
    [E(71)] "the extension {value} in ocfl_layout.json is not the name of a registered extension", LayoutName {
        /// The value.
        value: Excerpt
    };
    /// A file between objects.
    [E(72)] "{name} is a file outside of objects", FileInHierarchy {
        /// Its name.
        name: Excerpt
    };
    /// An empty folder between objects.
    [E(73)] "the folder is empty", EmptyFolder;
    /// Several declarations.
    [E(76)] "the storage root has {count} declarations instead of one", SeveralRootDeclarations {
        /// How many.
        count: usize
    };
    /// A declaration of an OCFL version that this crate doesn't know.
    [E(77)] "the declaration {name} is of no version of OCFL that is known here: 1.0 and 1.1", UnknownRootDeclaration {
        /// Its name.
        name: Excerpt
    };
    /// The declaration's text differs from its name.
    [E(80)] "the declaration's text is not {expected:?} and a line end", RootDeclarationText {
        /// What it should be.
        expected: String
    };
    /// An object of a newer specification than its storage root.
    [E(81)] "the object is of OCFL {object}, but the storage root of OCFL {root}", ObjectNewerThanRoot {
        /// The object's version.
        object: SpecVersion,
        /// The storage root's version.
        root: SpecVersion
    };
    /// An object at another place than the layout says.
    [E(83)] "the layout of the storage root puts {id} at {expected}", ObjectMisplaced {
        /// The object's identifier.
        id: Excerpt,
        /// The place by the layout.
        expected: Excerpt
    };
    /// Folders that are nested too deeply.
    [E(85)] "the folders are nested deeper than {most} levels without an object", TooDeep {
        /// Most levels.
        most: usize
    };
    /// A file among a storage root's extensions.
    [E(112)] "the folder of extensions contains {name}, which is not a folder", FileInRootExtensions {
        /// Its name.
        name: Excerpt
    };

    // Warnings.
    /// Padded version names.
    [W(1)] "version names are padded, such as {name}", Padded {
        /// The first version.
        name: VersionName
    };
    /// A folder beside the content folder.
    [W(2)] "the version folder contains the folder {name} beside its content", FolderInVersion {
        /// Its name.
        name: Excerpt
    };
    /// An empty content folder.
    [W(3)] "the content folder is empty", EmptyContent;
    /// Another algorithm than SHA-512.
    [W(4)] "digestAlgorithm is {algorithm}; sha512 is recommended", NotSha512 {
        /// The algorithm.
        algorithm: Algorithm
    };
    /// An identifier that is no URI.
    [W(5)] "the id {id} is not a URI", IdNotUri {
        /// The identifier.
        id: Excerpt
    };
    /// No message.
    [W(7)] "version {version} has no message", NoMessage {
        /// The version.
        version: VersionName
    };
    /// No user.
    [W(7)] "version {version} has no user", NoUser {
        /// The version.
        version: VersionName
    };
    /// No address.
    [W(8)] "the user of version {version} has no address", NoAddress {
        /// The version.
        version: VersionName
    };
    /// An address that is no URI.
    [W(9)] "the user's address {address} in version {version} is not a URI", AddressNotUri {
        /// The version.
        version: VersionName,
        /// The address.
        address: Excerpt
    };
    /// A version without inventory.
    [W(10)] "the version has no inventory of its own", NoVersionInventory;
    /// Other words about a version than in the object's inventory.
    [W(11)] "{key} of version {version} differs from the object's inventory", MetadataDiffers {
        /// The version.
        version: VersionName,
        /// Which key.
        key: &'static str
    };
    /// An extension that isn't registered.
    [W(13)] "the extension {name} is not registered", UnregisteredExtension {
        /// Its name.
        name: Excerpt
    };
    /// Objects at different depths.
    [W(14)] "this object is {levels} folders deep, but the first of the storage root is {first}", DepthDiffers {
        /// Levels of this object.
        levels: usize,
        /// Levels of the first object.
        first: usize
    };
    /// Objects both in the storage root itself and below.
    [W(15)] "the storage root contains objects both as its children and deeper", MixedDepths;
    /// An extension that isn't registered.
    [W(16)] "the extension {name} is not registered", UnregisteredRootExtension {
        /// Its name.
        name: Excerpt
    };
}
