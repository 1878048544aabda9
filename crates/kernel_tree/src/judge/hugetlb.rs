//! Pools of huge pages: whose turn it is, as `hugetlb/policy.rs` has it. Up to 64 nodes, one of which is allowed.

use super::case::{Both, Case, Span};
use super::draw::Draw;
use machine::Node;
use mm::decisions::{Decisions, NextNodeState, Rule};
use mm::hugetlb::policy::take_turn;

pub fn cases() -> Vec<Case> {
    let case = |name, rule: fn(&Decisions) -> Rule<NextNodeState>| {
        let own = |_: &_, s: &mut NextNodeState| turn(s);
        Case::from(Both { name, releases: Span::ALL, rule, draw: nodes, own, known: &[] })
    };
    vec![
        case("hstate_next_node_to_alloc", |d| d.judged.hstate_next_node_to_alloc),
        case("hstate_next_node_to_free", |d| d.judged.hstate_next_node_to_free),
    ]
}

fn nodes(draw: &mut Draw) -> NextNodeState {
    let some = draw.number(0, i64::MAX, &[]) as u64 | 1 << draw.number(0, 63, &[0, 63]);
    NextNodeState { nodes_allowed: some, next_node: draw.number(0, 63, &[0, 63]) as i32, answer: 0 }
}

fn turn(s: &mut NextNodeState) {
    let nodes: Vec<Node> = (0..64).filter(|node| s.nodes_allowed >> node & 1 != 0).map(Node).collect();
    let mut cursor = Node(s.next_node as u8);
    s.answer = take_turn(&nodes, &mut cursor).0.into();
    s.next_node = cursor.0.into();
}
