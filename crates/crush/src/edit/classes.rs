//! Device classes and the shadow trees that let rules choose within one.
//!
//! For each class there is a copy of every visible tree with that class's devices only. A bucket
//! `default` has a shadow `default~ssd`; rules with a class start from it. Shadows follow from the
//! rest of the map: any change rebuilds them all, and each gets back the id it had, so that rules
//! stay valid and placement does not move.

use super::shadows;
use crate::map::CrushMap;
use crate::names::is_valid_name;
use thiserror::Error;

/// Reason why a device class cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ClassError {
    /// No device of the map has this id.
    #[error("device {device} does not exist")]
    NoSuchDevice {
        /// Id of the device.
        device: i32,
    },
    /// The device has another class, which must be removed first.
    #[error("device {device} already has class '{class}'; remove that first")]
    OtherClass {
        /// Id of the device.
        device: i32,
        /// Class that the device has.
        class: String,
    },
    /// The name of the class is empty or has characters that names must not have.
    #[error("class '{class}' does not match [-_.0-9a-zA-Z]+")]
    InvalidName {
        /// Name that was given.
        class: String,
    },
}

pub(super) fn set_device_class(
    crush: &mut CrushMap,
    device: i32,
    class: &str,
) -> Result<bool, ClassError> {
    if !is_valid_name(class) {
        return Err(ClassError::InvalidName { class: class.into() });
    }
    if device < 0 || crush.item_name(device).is_none() {
        return Err(ClassError::NoSuchDevice { device });
    }
    match crush.item_class(device) {
        Some(current) if current == class => Ok(false),
        Some(current) => Err(ClassError::OtherClass { device, class: current.into() }),
        None => {
            let class = class_id_or_new(crush, class);
            crush.item_classes.insert(device, class);
            shadows::update_derived(crush);
            Ok(true)
        }
    }
}

pub(super) fn remove_device_class(crush: &mut CrushMap, device: i32) -> Result<bool, ClassError> {
    if device < 0 || crush.item_name(device).is_none() {
        return Err(ClassError::NoSuchDevice { device });
    }
    let had_class = crush.item_classes.remove(&device).is_some();
    if had_class {
        shadows::update_derived(crush);
    }
    Ok(had_class)
}

pub(super) fn set_subtree_class(
    crush: &mut CrushMap,
    root: i32,
    class: &str,
) -> Result<(), ClassError> {
    if !is_valid_name(class) {
        return Err(ClassError::InvalidName { class: class.into() });
    }
    let class = class_id_or_new(crush, class);
    let devices = crush.devices_below(root).into_iter().map(|device| (device, class));
    crush.item_classes.extend(devices);
    shadows::update_derived(crush);
    Ok(())
}

pub(super) fn add_class(crush: &mut CrushMap, name: &str) -> Result<i32, ClassError> {
    if !is_valid_name(name) {
        return Err(ClassError::InvalidName { class: name.into() });
    }
    Ok(class_id_or_new(crush, name))
}

pub(super) fn remove_class(crush: &mut CrushMap, class: i32) {
    crush.item_classes.retain(|&item, &mut other| item < 0 || other != class);
    shadows::update_derived(crush);
}

fn class_id_or_new(crush: &mut CrushMap, name: &str) -> i32 {
    if let Some(class) = crush.class_id(name) {
        return class;
    }
    let class = match crush.class_names.id_max() {
        None => 0,
        Some(highest) if highest < i32::MAX => highest.max(-1) + 1,
        Some(_) => {
            let vacant = |class: &i32| crush.class_name(*class).is_none();
            (0..i32::MAX).find(vacant).expect("a map has far fewer classes than numbers")
        }
    };
    crush.class_names.set(class, name);
    class
}
