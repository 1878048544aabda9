//! The papers' algorithms, transcribed with vectors that are searched linearly. The newest page of a list is
//! its last.

/// A slow implementation of a policy.
pub trait Model {
    fn access(&mut self, page: u32) -> bool;
    /// Number of pages in memory.
    fn resident(&self) -> usize;
}

/// Removes `page` from `list`. Returns whether it was there.
fn take(list: &mut Vec<u32>, page: u32) -> bool {
    let place = list.iter().position(|&p| p == page);
    place.map(|place| list.remove(place)).is_some()
}

pub struct Belady {
    capacity: usize,
    future: Vec<u32>,
    memory: Vec<u32>,
}

impl Belady {
    pub fn new(capacity: usize, pages: &[u32]) -> Belady {
        Belady { capacity, future: pages.to_vec(), memory: Vec::new() }
    }
}

impl Model for Belady {
    fn access(&mut self, page: u32) -> bool {
        self.future.remove(0);
        let hit = self.memory.contains(&page);
        if !hit {
            if self.memory.len() == self.capacity {
                let next = |page: u32| self.future.iter().position(|&p| p == page).unwrap_or(usize::MAX);
                let victim = self.memory.iter().copied().max_by_key(|&page| next(page)).unwrap();
                take(&mut self.memory, victim);
            }
            self.memory.push(page);
        }
        hit
    }
    fn resident(&self) -> usize {
        self.memory.len()
    }
}

pub struct Lru {
    capacity: usize,
    memory: Vec<u32>,
}

impl Lru {
    pub fn new(capacity: usize) -> Lru {
        Lru { capacity, memory: Vec::new() }
    }
}

impl Model for Lru {
    fn access(&mut self, page: u32) -> bool {
        let hit = take(&mut self.memory, page);
        if !hit && self.memory.len() == self.capacity {
            self.memory.remove(0);
        }
        self.memory.push(page);
        hit
    }
    fn resident(&self) -> usize {
        self.memory.len()
    }
}

/// CLOCK as "second chance": a queue from whose end used pages go back to the start.
pub struct Clock {
    capacity: usize,
    queue: Vec<(u32, bool)>,
}

impl Clock {
    pub fn new(capacity: usize) -> Clock {
        Clock { capacity, queue: Vec::new() }
    }
}

impl Model for Clock {
    fn access(&mut self, page: u32) -> bool {
        if let Some(entry) = self.queue.iter_mut().find(|entry| entry.0 == page) {
            entry.1 = true;
            return true;
        }
        while self.queue.len() == self.capacity {
            let (oldest, used) = self.queue.remove(0);
            if used {
                self.queue.push((oldest, false));
            }
        }
        self.queue.push((page, false));
        false
    }
    fn resident(&self) -> usize {
        self.queue.len()
    }
}

pub struct Arc {
    c: usize,
    p: f64,
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
}

impl Arc {
    pub fn new(c: usize) -> Arc {
        Arc { c, p: 0.0, t1: vec![], t2: vec![], b1: vec![], b2: vec![] }
    }

    fn replace(&mut self, x_in_b2: bool) {
        let t1 = self.t1.len() as f64;
        if !self.t1.is_empty() && (t1 > self.p || x_in_b2 && t1 == self.p) {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }
}

impl Model for Arc {
    fn access(&mut self, x: u32) -> bool {
        if take(&mut self.t1, x) || take(&mut self.t2, x) {
            self.t2.push(x);
            return true;
        }
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        if self.b1.contains(&x) {
            self.p = (self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }).min(self.c as f64);
            self.replace(false);
            take(&mut self.b1, x);
            self.t2.push(x);
        } else if self.b2.contains(&x) {
            self.p = (self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }).max(0.0);
            self.replace(true);
            take(&mut self.b2, x);
            self.t2.push(x);
        } else {
            if self.t1.len() + self.b1.len() == self.c {
                if self.t1.len() < self.c {
                    self.b1.remove(0);
                    self.replace(false);
                } else {
                    self.t1.remove(0);
                }
            } else {
                let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                if all >= self.c {
                    if all == 2 * self.c {
                        self.b2.remove(0);
                    }
                    self.replace(false);
                }
            }
            self.t1.push(x);
        }
        assert!(self.t1.len() + self.b1.len() <= self.c);
        false
    }
    fn resident(&self) -> usize {
        self.t1.len() + self.t2.len()
    }
}

pub struct Lirs {
    capacity: usize,
    low_room: usize,
    /// The LIR pages.
    low: Vec<u32>,
    stack: Vec<u32>,
    queue: Vec<u32>,
}

impl Lirs {
    pub fn new(capacity: usize) -> Lirs {
        let high_room = if capacity < 200 { 1 } else { capacity / 100 };
        Lirs { capacity, low_room: capacity - high_room, low: vec![], stack: vec![], queue: vec![] }
    }

    fn prune(&mut self) {
        while self.stack.first().is_some_and(|page| !self.low.contains(page)) {
            self.stack.remove(0);
        }
    }
}

impl Model for Lirs {
    fn access(&mut self, x: u32) -> bool {
        if self.low.contains(&x) {
            take(&mut self.stack, x);
            self.stack.push(x);
            self.prune();
            return true;
        }
        let hit = take(&mut self.queue, x);
        if !hit && self.low.len() < self.low_room {
            self.low.push(x);
            take(&mut self.stack, x);
            self.stack.push(x);
            return false;
        }
        if !hit && self.low.len() + self.queue.len() == self.capacity {
            self.queue.remove(0);
        }
        if take(&mut self.stack, x) {
            self.low.push(x);
            self.stack.push(x);
            let bottom = self.stack.remove(0);
            assert!(take(&mut self.low, bottom));
            self.queue.push(bottom);
        } else {
            self.stack.push(x);
            self.queue.push(x);
        }
        self.prune();
        hit
    }
    fn resident(&self) -> usize {
        self.low.len() + self.queue.len()
    }
}

pub struct S3Fifo {
    capacity: usize,
    small_room: usize,
    filling: bool,
    small: Vec<(u32, u8)>,
    main: Vec<(u32, u8)>,
    ghost: Vec<u32>,
}

impl S3Fifo {
    pub fn new(capacity: usize) -> S3Fifo {
        S3Fifo {
            capacity,
            small_room: (capacity / 10).max(1),
            filling: true,
            small: vec![],
            main: vec![],
            ghost: vec![],
        }
    }

    fn evict_main(&mut self) {
        while !self.main.is_empty() {
            let (page, uses) = self.main.remove(0);
            if uses == 0 {
                return;
            }
            self.main.push((page, uses - 1));
        }
    }

    fn evict_small(&mut self) {
        while !self.small.is_empty() {
            let (page, uses) = self.small.remove(0);
            if uses > 1 {
                self.main.push((page, 0));
            } else {
                self.ghost.push(page);
                if self.ghost.len() > self.capacity * 9 / 10 {
                    self.ghost.remove(0);
                }
                return;
            }
        }
    }
}

impl Model for S3Fifo {
    fn access(&mut self, x: u32) -> bool {
        if let Some(entry) = self.small.iter_mut().chain(&mut self.main).find(|entry| entry.0 == x) {
            entry.1 = (entry.1 + 1).min(3);
            return true;
        }
        let remembered = take(&mut self.ghost, x);
        while self.resident() >= self.capacity {
            self.filling = false;
            if self.small.len() >= self.small_room { self.evict_small() } else { self.evict_main() }
        }
        let small_is_full = self.small.len() >= self.small_room;
        let to_main = remembered || (self.filling && small_is_full);
        if to_main {
            self.main.push((x, 0))
        } else {
            self.small.push((x, 0))
        }
        false
    }
    fn resident(&self) -> usize {
        self.small.len() + self.main.len()
    }
}

/// W-TinyLFU that halves all counters at once.
pub struct WTinyLfu {
    capacity: usize,
    window_room: usize,
    window: Vec<u32>,
    probation: Vec<u32>,
    protected: Vec<u32>,
    uses: Vec<u32>,
    accesses: usize,
}

impl WTinyLfu {
    pub fn new(capacity: usize) -> WTinyLfu {
        let window_room = if capacity < 200 { 1 } else { capacity / 100 };
        WTinyLfu {
            capacity,
            window_room,
            window: vec![],
            probation: vec![],
            protected: vec![],
            uses: vec![0; 1000],
            accesses: 0,
        }
    }
}

impl Model for WTinyLfu {
    fn access(&mut self, x: u32) -> bool {
        let main_room = self.capacity - self.window_room;
        self.uses[x as usize] = (self.uses[x as usize] + 1).min(15);
        self.accesses += 1;
        if self.accesses.is_multiple_of(10 * self.capacity) {
            self.uses.iter_mut().for_each(|uses| *uses /= 2);
        }
        if take(&mut self.window, x) {
            self.window.push(x);
        } else if take(&mut self.protected, x) {
            self.protected.push(x);
        } else if take(&mut self.probation, x) {
            self.protected.push(x);
            if self.protected.len() > main_room * 80 / 100 {
                self.probation.push(self.protected.remove(0));
            }
        } else {
            self.window.push(x);
            if self.window.len() > self.window_room {
                let candidate = self.window.remove(0);
                if self.probation.len() + self.protected.len() < main_room {
                    self.probation.push(candidate);
                } else if main_room > 0 {
                    let victims =
                        if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
                    if self.uses[candidate as usize] > self.uses[victims[0] as usize] {
                        victims.remove(0);
                        self.probation.push(candidate);
                    }
                }
            }
            return false;
        }
        true
    }
    fn resident(&self) -> usize {
        self.window.len() + self.probation.len() + self.protected.len()
    }
}
