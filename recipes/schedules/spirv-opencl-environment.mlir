// The module's SPIR-V environment. Conversions of math operations look for it around them and find
// no other: without it they would write GLSL instructions, which OpenCL does not have.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %environment = transform.param.constant #spirv.target_env<
      #spirv.vce<v1.0, [Kernel, Addresses, Int64, Int16, Int8, Float64], []>,
      #spirv.resource_limits<>> -> !transform.any_param
    transform.annotate %module "spirv.target_env" = %environment
      : !transform.any_op, !transform.any_param
    transform.yield
  }
}
