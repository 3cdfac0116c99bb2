// Parallel dimensions first: reductions of the middle or the front of an array move inwards, so that
// what is left outside are the elements of the result, which are independent.
module attributes {transform.with_named_sequence} {
  transform.named_sequence @__transform_main(%module: !transform.any_op {transform.readonly}) {
    %rp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %rp iterator_interchange = [1, 0]
      : (!transform.any_op) -> !transform.any_op
    %rpp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %rpp iterator_interchange = [1, 2, 0]
      : (!transform.any_op) -> !transform.any_op
    %rpr = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<reduction>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %rpr iterator_interchange = [1, 0, 2]
      : (!transform.any_op) -> !transform.any_op
    %prp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %prp iterator_interchange = [0, 2, 1]
      : (!transform.any_op) -> !transform.any_op
    %prpp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %prpp iterator_interchange = [0, 2, 3, 1]
      : (!transform.any_op) -> !transform.any_op
    %pprp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %pprp iterator_interchange = [0, 1, 3, 2]
      : (!transform.any_op) -> !transform.any_op
    %pprpp = transform.structured.match ops{["linalg.generic"]} attributes {
      iterator_types = [
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<reduction>,
        #linalg.iterator_type<parallel>,
        #linalg.iterator_type<parallel>
      ]} in %module : (!transform.any_op) -> !transform.any_op
    transform.structured.interchange %pprpp iterator_interchange = [0, 1, 3, 4, 2]
      : (!transform.any_op) -> !transform.any_op
    transform.yield
  }
}
