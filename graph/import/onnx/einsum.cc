// Einsum of one or two operands. Products of matrices become MatMul, everything else the operator that does what is written.
#include <algorithm>
#include <cctype>
#include <string>

#include "graph/import/onnx/importer.h"

namespace lathe::onnx {
namespace {

constexpr size_t kLabels = 16;

// One side of an equation: letters, and '.' for the place of an ellipsis.
using Term = std::string;

struct Equation {
  std::vector<Term> inputs;
  Term output;
  bool has_output = false;
};

Result<Equation> parse_equation(std::string_view text) {
  Equation e;
  e.inputs.emplace_back();
  Term* term = &e.inputs[0];
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == ' ') continue;
    if (c == ',' && !e.has_output) {
      term = &e.inputs.emplace_back();
    } else if (c == '-' && !e.has_output && i + 1 < text.size() && text[i + 1] == '>') {
      e.has_output = true;
      term = &e.output;
      ++i;
    } else if (text.substr(i, 3) == "..." && term->find('.') == Term::npos) {
      *term += '.';
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(c)) != 0) {
      *term += c;
    } else {
      return fail(Code::kInvalidArgument, "the equation '" + std::string(text) + "' cannot be read at '" + std::string(1, c) + "'");
    }
  }
  return e;
}

// Numbers for letters, in order of appearance; the axes of ellipses come after them, counted from the last.
class Labels {
 public:
  Result<Ints> of(const Term& term, size_t rank) {
    const bool dots = term.find('.') != Term::npos;
    const size_t letters = term.size() - (dots ? 1 : 0);
    if (letters > rank || (!dots && letters != rank))
      return fail(Code::kInvalidArgument, "the equation's term '" + term + "' does not fit an operand of rank " + std::to_string(rank));
    return expand(term, rank - letters);
  }
  Result<Ints> expand(const Term& term, size_t hidden) {
    Ints out;
    for (char c : term) {
      for (size_t k = 0; c == '.' && k < hidden; ++k) LATHE_CHECK_OK(append(out, std::string(1, '.') + std::to_string(hidden - k)));
      if (c != '.') LATHE_CHECK_OK(append(out, std::string(1, c)));
    }
    most_hidden_ = std::max(most_hidden_, hidden);
    return out;
  }
  size_t most_hidden() const { return most_hidden_; }

 private:
  Result<void> append(Ints& out, const std::string& name) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    const auto number = static_cast<size_t>(at - names_.begin());
    if (at == names_.end()) names_.push_back(name);
    if (number >= kLabels || out.count == static_cast<int32_t>(kMaxRank))
      return fail(Code::kUnsupported, "the equation has more than " + std::to_string(kLabels) + " labels or a term over rank " +
                                          std::to_string(kMaxRank));
    out.values[out.count++] = static_cast<int32_t>(number);
    return {};
  }

  std::vector<std::string> names_;
  size_t most_hidden_ = 0;
};

// What an equation without an arrow gives: the ellipsis, then letters that stand once, in alphabetical order.
Term implied_output(const Equation& e) {
  Term all, out;
  for (const Term& t : e.inputs) all += t;
  if (all.find('.') != Term::npos) out += '.';
  std::string letters = all;
  std::sort(letters.begin(), letters.end());
  for (char c : letters)
    if (c != '.' && std::count(letters.begin(), letters.end(), c) == 1) out += c;
  return out;
}

bool contains(const Ints& list, int32_t v) { return std::find(list.values, list.values + list.count, v) != list.values + list.count; }

// The places in `labels` of the labels in `wanted`; nothing if one is missing.
std::optional<Ints> places(const Ints& wanted, const Ints& labels) {
  Ints out;
  for (int32_t i = 0; i < wanted.count; ++i) {
    const int32_t* at = std::find(labels.values, labels.values + labels.count, wanted[i]);
    if (at == labels.values + labels.count) return std::nullopt;
    out.values[out.count++] = static_cast<int32_t>(at - labels.values);
  }
  return out;
}

// batch..., m, k times batch..., k, n: each of m, k and n one label, all different, dims not broadcast.
struct Product {
  Ints a_perm, b_perm, y_perm;
};
std::optional<Product> as_product(NodeImport& n, const EinsumAttrs& e, ValueId a, ValueId b) {
  Ints batch, m, k, cols;
  const auto put = [](Ints& list, int32_t label) { list.values[list.count++] = label; };
  for (int32_t i = 0; i < e.a.count; ++i) {
    const int32_t label = e.a[i];
    if (std::count(e.a.values, e.a.values + e.a.count, label) != 1) return std::nullopt;
    const int32_t* at = std::find(e.b.values, e.b.values + e.b.count, label);
    const bool in_b = at != e.b.values + e.b.count, in_y = contains(e.y, label);
    if (in_b && n.type(a).dims[static_cast<size_t>(i)] != n.type(b).dims[static_cast<size_t>(at - e.b.values)]) return std::nullopt;
    if (!in_b && !in_y) return std::nullopt;
    put(in_b ? (in_y ? batch : k) : m, label);
  }
  for (int32_t i = 0; i < e.b.count; ++i) {
    const int32_t label = e.b[i];
    if (std::count(e.b.values, e.b.values + e.b.count, label) != 1) return std::nullopt;
    if (contains(e.a, label)) continue;
    if (!contains(e.y, label)) return std::nullopt;
    put(cols, label);
  }
  if (m.count != 1 || k.count != 1 || cols.count != 1) return std::nullopt;
  Ints a_order = batch, b_order = batch, y_order = batch;
  put(a_order, m[0]), put(a_order, k[0]), put(b_order, k[0]), put(b_order, cols[0]), put(y_order, m[0]), put(y_order, cols[0]);
  const auto a_perm = places(a_order, e.a), b_perm = places(b_order, e.b), y_perm = places(e.y, y_order);
  if (!a_perm || !b_perm || !y_perm) return std::nullopt;
  return Product{*a_perm, *b_perm, *y_perm};
}

}  // namespace

Result<void> import_einsum(NodeImport& n) {
  LATHE_TRY(const std::string_view text, n.text("equation", ""));
  LATHE_TRY(Equation e, parse_equation(text));
  if (e.inputs.size() != n.input_count())
    return fail(Code::kInvalidArgument, "the equation '" + std::string(text) + "' has " + std::to_string(e.inputs.size()) +
                                            " terms for " + std::to_string(n.input_count()) + " inputs");
  if (e.inputs.size() > 2) return fail(Code::kUnsupported, std::to_string(e.inputs.size()) + " operands are not supported, only 2");
  Labels labels;
  EinsumAttrs attrs;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    LATHE_TRY(operands.emplace_back(), n.value(i));
    LATHE_TRY((i == 0 ? attrs.a : attrs.b), labels.of(e.inputs[i], n.rank(operands[i])));
  }
  if (!e.has_output) e.output = implied_output(e);
  LATHE_TRY(attrs.y, labels.expand(e.output, labels.most_hidden()));
  const auto product = operands.size() == 2 ? as_product(n, attrs, operands[0], operands[1]) : std::nullopt;
  if (!product) return n.finish(Op::kEinsum, attrs, operands);
  LATHE_TRY(const ValueId a, n.emit("a", Op::kTranspose, PermAttrs{product->a_perm}, {operands[0]}));
  LATHE_TRY(const ValueId b, n.emit("b", Op::kTranspose, PermAttrs{product->b_perm}, {operands[1]}));
  LATHE_TRY(const ValueId y, n.emit("", Op::kMatMul, MatMulAttrs{}, {a, b}));
  return n.finish(Op::kTranspose, PermAttrs{product->y_perm}, {y}, 0, "y");
}

}  // namespace lathe::onnx
