//! The console of several sessions.

use std::cell::RefCell;
use std::rc::Rc;

use syntax::{Console, SyntaxError};

/// A console that several sessions share, and that counts errors.
#[derive(Debug)]
pub(super) struct Shared<C> {
    pub console: Rc<RefCell<C>>,
    pub errors: Rc<RefCell<usize>>,
}

impl<C> Clone for Shared<C> {
    fn clone(&self) -> Self {
        Self {
            console: Rc::clone(&self.console),
            errors: Rc::clone(&self.errors),
        }
    }
}

impl<C: Console> Console for Shared<C> {
    fn print(&mut self, text: &str) {
        self.console.borrow_mut().print(text);
    }

    fn page(&mut self, text: &str) {
        self.console.borrow_mut().page(text);
    }

    fn notice(&mut self, text: &str) {
        self.console.borrow_mut().notice(text);
    }

    fn error(&mut self, text: &str) {
        *self.errors.borrow_mut() += 1;
        self.console.borrow_mut().error(text);
    }

    fn syntax_error(&mut self, error: &SyntaxError) {
        *self.errors.borrow_mut() += 1;
        self.console.borrow_mut().syntax_error(error);
    }

    fn ask(&mut self, question: &str) -> Option<bool> {
        self.console.borrow_mut().ask(question)
    }
}
