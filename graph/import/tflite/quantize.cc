// Borders between real and quantized values, and casts.
#include "graph/import/tflite/importer.h"

namespace lathe::tflite {

// From float, or from other parameters: finish_value does either.
Result<void> import_quantize(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const auto wanted, quant_of(n.output()));
  if (!wanted) return fail(Code::kInvalidArgument, "its output has no quantization parameters");
  return n.finish_value(x);
}

// Constants of half precision are float already.
Result<void> import_dequantize(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  return n.finish_value(x);
}

Result<void> import_cast(NodeImport& n) {
  LATHE_TRY(const ValueId x, n.value(0));
  LATHE_TRY(const DType to, dtype_of(n.output()));
  return n.finish(Op::kCast, CastAttrs{static_cast<int32_t>(to)}, {x});
}

}  // namespace lathe::tflite
