#include "graph/ir.h"

namespace lathe {

std::string print_type(const DimTable& dims, const TensorType& type) {
  const char* name = dtype_name(type.dtype);
  std::string s = name ? name : "?";
  s += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) s += (i ? "," : "") + dims.text(type.dims[i]);
  return s + ']';
}

}  // namespace lathe
