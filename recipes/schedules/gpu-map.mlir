module attributes {transform.with_named_sequence} {
  transform.named_sequence @reduced_rp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 2 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[1] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[0] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_rp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [1, 0] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_rpp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[1, 2] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[0] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_rpp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [1, 2, 0] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_rpr(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[1] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[0, 2] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_rpr(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [1, 0, 2] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_prp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 3 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[0, 2] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[1] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_prp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [0, 2, 1] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_prpp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[0, 2, 3] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[1] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_prpp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [0, 2, 3, 1] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_pprp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 4 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[0, 1, 3] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[2] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_pprp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [0, 1, 3, 2] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @reduced_pprpp(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      %rank = transform.match.structured.rank %payload : (!transform.any_op) -> !transform.param<i64>
      %wanted = transform.param.constant 5 : i64 -> !transform.param<i64>
      transform.match.param.cmpi eq %rank, %wanted : !transform.param<i64>
      transform.match.structured.dim %payload[0, 1, 3, 4] {parallel} : !transform.any_op
      transform.match.structured.dim %payload[2] {reduction} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @sort_pprpp(%op: !transform.any_op {transform.consumed}) {
    %sorted = transform.structured.interchange %op iterator_interchange = [0, 1, 3, 4, 2] : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
  transform.named_sequence @parallel_6(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3, 4, 5] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_6(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, 1, 1, ${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_5(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3, 4] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_5(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, 1, ${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_4(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2, 3] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_4(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, 1, 1, ${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_3(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1, 2] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_3(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, 1, ${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_2(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0, 1] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_2(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [1, ${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @parallel_1(%op: !transform.any_op {transform.readonly}) -> !transform.any_op {
    %matched = transform.match.structured %op : (!transform.any_op) -> !transform.any_op {
    ^bb0(%payload: !transform.any_op):
      transform.match.structured.dim %payload[0] {parallel} : !transform.any_op
      transform.match.structured.yield %payload : !transform.any_op
    }
    transform.yield %matched : !transform.any_op
  }
  transform.named_sequence @tile_1(%op: !transform.any_op {transform.consumed}) {
    %tiled, %blocks = transform.structured.tile_using_forall %op tile_sizes [${threads}] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %sorted = transform.foreach_match in %module
        @reduced_rp -> @sort_rp,
        @reduced_rpp -> @sort_rpp,
        @reduced_rpr -> @sort_rpr,
        @reduced_prp -> @sort_prp,
        @reduced_prpp -> @sort_prpp,
        @reduced_pprp -> @sort_pprp,
        @reduced_pprpp -> @sort_pprpp
        : (!transform.any_op) -> !transform.any_op
    %tiled = transform.foreach_match in %sorted
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
