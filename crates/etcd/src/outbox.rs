//! Completions on their way from the thread of the store to the monitor.

use control::{Completion, Observer, Request};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::mpsc::SyncSender;

/// The sending end, shared by all tasks of the thread.
#[derive(Clone)]
pub(crate) struct Outbox {
    completions: SyncSender<Completion>,
    wake: Rc<dyn Fn()>,
    observer: Rc<RefCell<Option<Box<dyn Observer>>>>,
}

impl Outbox {
    pub(crate) fn new(
        completions: SyncSender<Completion>,
        wake: impl Fn() + 'static,
        observer: Option<Box<dyn Observer>>,
    ) -> Self {
        Outbox { completions, wake: Rc::new(wake), observer: Rc::new(RefCell::new(observer)) }
    }

    /// To be called before a request is executed.
    pub(crate) fn note_request(&self, request: &Request) {
        self.observer
            .borrow_mut()
            .iter_mut()
            .for_each(|observer| observer.observe_request(request));
    }

    pub(crate) fn send(&self, completion: Completion) {
        let mut observer = self.observer.borrow_mut();
        observer.iter_mut().for_each(|observer| observer.observe_completion(&completion));
        drop(observer);
        // The receiver is gone when the store is being closed.
        if self.completions.send(completion).is_ok() {
            (self.wake)();
        }
    }
}
