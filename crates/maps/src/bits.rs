//! Sets of named bits in maps.

/// Defines a set of flags over an integer: constants, set operations, and conversion from and to names.
/// `Display` joins the names of the set bits with commas, in the order of definition.
macro_rules! bit_set {
    ($(#[$doc:meta])* $set:ident($inner:ident) { $($(#[$flag_doc:meta])* $flag:ident = $bit:literal, $name:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $set(
            /// All bits, also those without a name.
            pub $inner,
        );

        impl $set {
            $(
                #[doc = concat!("The flag `", $name, "`.")]
                $(#[$flag_doc])*
                pub const $flag: $set = $set(1 << $bit);
            )*

            /// Each flag with its name, in the order of display.
            pub const NAMES: &'static [($set, &'static str)] = &[$(($set::$flag, $name)),*];

            /// True if all bits of `other` are set.
            pub fn contains(self, other: $set) -> bool {
                self.0 & other.0 == other.0
            }

            /// True if any bit of `other` is set.
            pub fn intersects(self, other: $set) -> bool {
                self.0 & other.0 != 0
            }

            /// True if no bit is set.
            pub fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Sets the bits of `other`.
            pub fn insert(&mut self, other: $set) {
                self.0 |= other.0;
            }

            /// Clears the bits of `other`.
            pub fn remove(&mut self, other: $set) {
                self.0 &= !other.0;
            }

            /// Sets or clears the bits of `other`.
            pub fn set(&mut self, other: $set, on: bool) {
                if on { self.insert(other) } else { self.remove(other) }
            }

            /// The set without the bits of `other`.
            #[must_use]
            pub fn without(self, other: $set) -> $set {
                $set(self.0 & !other.0)
            }

            /// Names of the set bits; bits without a name are skipped.
            pub fn names(self) -> impl Iterator<Item = &'static str> {
                Self::NAMES.iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, n)| *n)
            }
        }

        impl std::ops::BitOr for $set {
            type Output = $set;
            fn bitor(self, other: $set) -> $set {
                $set(self.0 | other.0)
            }
        }

        impl std::fmt::Display for $set {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                for (i, name) in self.names().enumerate() {
                    if i > 0 {
                        f.write_str(",")?;
                    }
                    f.write_str(name)?;
                }
                Ok(())
            }
        }

        /// Parses the name of one flag.
        impl std::str::FromStr for $set {
            type Err = ();
            fn from_str(text: &str) -> Result<$set, ()> {
                Self::NAMES.iter().find(|(_, name)| *name == text).map(|(flag, _)| *flag).ok_or(())
            }
        }

        impl codec::Encode for $set {
            fn encode(&self, w: &mut codec::Writer) {
                w.$inner(self.0);
            }
        }

        impl codec::Decode for $set {
            fn decode(r: &mut codec::Reader<'_>) -> codec::Result<Self> {
                r.$inner(stringify!($set)).map($set)
            }
        }
    };
}
pub(crate) use bit_set;
