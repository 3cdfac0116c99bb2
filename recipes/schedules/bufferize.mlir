// One-Shot Bufferize over the whole module, function boundaries included, with identity layouts:
// the caller passes plain row-major arrays. Copies are linalg.copy, which the loop lowering turns
// into loops; memref.copy of a strided view would call a runtime library instead.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.consumed}) {
    %buffers = transform.bufferization.one_shot_bufferize layout{IdentityLayoutMap} %module {
      allow_return_allocs_from_loops = ${allow_loop_allocs},
      bufferize_function_boundaries = true,
      memcpy_op = "linalg.copy"
    } : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
