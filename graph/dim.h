// Symbolic dimensions: interned integer expressions over named symbols.
//
// A DimTable owns the expressions of one model (its graphs share it); a Dim is a small handle into it. Symbols are sizes: in [kMinSymbol, kMaxSymbol].
// Building an expression brings it to a canonical form: a polynomial with integer coefficients over atoms (symbols, floordiv, min,
// max), terms in a fixed order, whatever a floor division can give back taken out of it (floordiv(N*1024+5, 1024) is N), nested divisions
// merged, operands of min and max that can never win dropped. Equal handles mean equal expressions; unequal handles mean "not known to be
// equal", which becomes a check at bind. An expression whose coefficients leave int64, or that grows past kMaxDimSize nodes, is an
// invalid Dim, and so is everything made from one. Not thread-safe.
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

// Largest expression, as a tree of nodes. It bounds recursion and text, also for hostile models.
inline constexpr uint32_t kMaxDimSize = 1024;

// What a symbol can be. Bounds, and cancelled divisions by symbols, rely on it.
inline constexpr int64_t kMinSymbol = 1, kMaxSymbol = 0x7fffffff;

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
  // Element `element` of integer tensor number `tensor` (op Extents), known when the program has come that far: in
  // [0, kMaxSymbol]. Invalid if a number is negative.
  Dim data_value(int64_t tensor, int64_t element);
  int64_t unused_data_tensor() const { return data_tensors_; }  // above every number that has a value
  Dim add(Dim a, Dim b);
  Dim sub(Dim a, Dim b);
  Dim mul(Dim a, Dim b);
  Dim floordiv(Dim a, Dim b);  // rounds toward minus infinity; invalid if b is 0
  Dim ceildiv(Dim a, Dim b);
  Dim min(Dim a, Dim b);
  Dim max(Dim a, Dim b);

  const DimNode& node(Dim d) const { return nodes_[d.id]; }
  std::optional<int64_t> value(Dim d) const;  // if it is a constant
  bool is(Dim d, int64_t v) const { return value(d) == v; }
  // Bounds that hold for every value of the symbols; nullopt: none is known.
  std::optional<int64_t> lower_bound(Dim d);
  std::optional<int64_t> upper_bound(Dim d);
  // Whether a and b differ for every value of the symbols.
  bool never_equal(Dim a, Dim b);
  size_t symbol_count() const { return symbols_.size(); }
  const std::string& symbol_name(size_t number) const { return symbols_[number]; }
  bool depends_on_data(Dim d) const;  // whether there is a data_value() in it

  // The expression with symbols replaced; `values[i]` is for symbol i, nullopt keeps it.
  Dim substitute(Dim d, const std::vector<std::optional<int64_t>>& values);
  // Its value, or an error that names the missing symbol, one out of range, the overflow or the division by zero.
  Result<int64_t> evaluate(Dim d, const std::vector<std::optional<int64_t>>& values) const;

  // Text: 16, N, N*4+1, floordiv(H+1,2), min(A,B); symbols that are not identifiers are in double quotes. parse accepts what text gives,
  // parentheses, and ceildiv.
  std::string text(Dim d) const;
  Result<Dim> parse(std::string_view text);

 private:
  // coefficient of each monomial; a monomial is a sorted list of atoms, the empty one is the constant term.
  using Monomial = std::vector<Dim>;
  using Poly = std::vector<std::pair<Monomial, int64_t>>;  // highest term first, no zero coefficients

  Dim intern(DimNode node);
  int compare(Dim a, Dim b) const;  // structural order: the same in every table
  int compare(const Monomial& a, const Monomial& b) const;
  bool append(Poly& p, Dim d, int64_t factor) const;  // p += d * factor, unsorted; false: overflow
  std::optional<Poly> normalize(Poly terms) const;
  std::optional<Poly> poly(Dim d) const;
  std::optional<Poly> product(const Poly& a, const Poly& b) const;
  std::optional<Poly> exact_quotient(Poly a, const Poly& b) const;
  Dim build(const Poly& p);
  Dim build(const std::optional<Poly>& p) { return p ? build(*p) : Dim{}; }
  Dim merge_division(const Poly& a, int64_t d);
  Dim floordiv_constant(const Poly& a, int64_t b);
  Dim extremum(DimOp op, Dim a, Dim b);
  bool collect(DimOp op, Dim d, std::vector<Dim>& out) const;
  std::optional<int64_t> bound(Dim d, bool lower) const;
  std::optional<int64_t> term_bound(const Monomial& m, int64_t factor, bool lower) const;

  std::vector<DimNode> nodes_;
  std::vector<uint32_t> sizes_;  // nodes of each expression, as a tree
  std::map<DimNode, uint32_t> index_;
  std::vector<std::string> symbols_;
  int64_t data_tensors_ = 0;
};

}  // namespace lathe
