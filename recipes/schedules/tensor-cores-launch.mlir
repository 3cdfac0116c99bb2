// Each piece of a matrix product becomes a block of one warp.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %blocks = transform.structured.match ops{["scf.forall"]} in %module
      : (!transform.any_op) -> !transform.any_op
    %launch = transform.gpu.map_forall_to_blocks %blocks generate_gpu_launch
      : (!transform.any_op) -> !transform.any_op
    transform.gpu.map_nested_forall_to_threads %launch block_dims = [32, 1, 1]
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
