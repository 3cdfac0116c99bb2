// Tiles each operation for one launch: a tile is a piece of `threads` elements of the innermost of
// the leading parallel dimensions, and one element of each other. The loops over tiles become
// blocks, what is inside a tile becomes threads, and dimensions after the leading parallel ones
// (reductions) stay loops. An operation that fits in one tile is not tiled at all.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @parallel_6(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3, 4, 5] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_6(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, 1, 1, ${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_5(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3, 4] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_5(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, 1, ${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_4(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_4(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, ${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_3(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_3(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [1, 1, ${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_2(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_2(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [1, ${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_1(%op: !transform.any_op {transform.readonly})
      -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0] {parallel}
        : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_1(%op: !transform.any_op {transform.consumed}) {
    transform.structured.tile_using_forall %op tile_sizes [${threads}]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }

  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    transform.foreach_match in %module
      @parallel_6 -> @tile_6,
      @parallel_5 -> @tile_5,
      @parallel_4 -> @tile_4,
      @parallel_3 -> @tile_3,
      @parallel_2 -> @tile_2,
      @parallel_1 -> @tile_1
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
