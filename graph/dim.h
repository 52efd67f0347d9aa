// Symbolic dimensions: interned integer expressions over named symbols.
//
// A DimTable owns the expressions of one model (its graphs share it); a Dim is a small handle into it. Building an expression brings it
// to a canonical form (constants folded, sums and products flattened, like terms merged, exact floor divisions cancelled:
// floordiv(N*1024, 1024) is N), so equal handles mean equal expressions; unequal handles mean "not known to be equal", which becomes a check at
// bind. Arithmetic is on int64 and saturates to an invalid Dim on overflow. Not thread-safe.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "runtime/program.h"  // DimOp

namespace lathe {

struct Dim {
  uint32_t id = 0xffffffffu;  // index in the DimTable; the default is invalid
  bool valid() const { return id != 0xffffffffu; }
  bool operator==(const Dim&) const = default;
};

// One node: op with operands. a and b are kConst's value, kSymbol's number, or ids of earlier nodes.
struct DimNode {
  DimOp op;
  int64_t a = 0;
  int64_t b = 0;
  bool operator==(const DimNode&) const = default;
  auto operator<=>(const DimNode&) const = default;
};

class DimTable {
 public:
  Dim constant(int64_t value);
  Dim symbol(std::string_view name);  // the same name gives the same symbol
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floordiv(Dim a, Dim b);  // b != 0; rounds toward minus infinity
  Dim ceildiv(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);

  const DimNode& node(Dim d) const { return nodes_[d.id]; }
  std::optional<int64_t> value(Dim d) const;  // if it is a constant
  bool is(Dim d, int64_t v) const { return value(d) == v; }
  size_t symbol_count() const { return symbols_.size(); }
  const std::string& symbol_name(size_t number) const { return symbols_[number]; }

  // The expression with symbols replaced; `values[i]` is for symbol i, nullopt keeps it.
  Dim substitute(Dim d, const std::vector<std::optional<int64_t>>& values);
  // Its value, or an error that names the missing symbol, the overflow or the division by zero.
  Result<int64_t> evaluate(Dim d, const std::vector<std::optional<int64_t>>& values) const;

  // Text: 16, N, (N*4+1), floordiv(H+1,2), min(a,b). parse accepts what text gives.
  std::string text(Dim d) const;
  Result<Dim> parse(std::string_view text);

 private:
  Dim intern(DimNode node);
  std::vector<DimNode> nodes_;
  std::map<DimNode, uint32_t> index_;
  std::vector<std::string> symbols_;
};

}  // namespace lathe
