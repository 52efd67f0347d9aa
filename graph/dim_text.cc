// Text form of dimensions. A canonical expression needs no parentheses: sums stand only at the top and inside floordiv, min and
// max.
#include <string>

#include "graph/dim.h"
#include "graph/text_cursor.h"

namespace lathe {
namespace {

Result<Dim> checked(TextCursor& in, Dim d) {
  if (!d.valid()) return in.error("dimension overflows or is too large an expression");
  return d;
}

Result<Dim> parse_call(DimTable& dims, TextCursor& in, const std::string& name) {
  LATHE_TRY(const Dim a, parse_dim(dims, in));
  LATHE_CHECK_OK(in.expect(","));
  LATHE_TRY(const Dim b, parse_dim(dims, in));
  LATHE_CHECK_OK(in.expect(")"));
  if (name == "floordiv") return checked(in, dims.floordiv(a, b));
  if (name == "ceildiv") return checked(in, dims.ceildiv(a, b));
  if (name == "min") return checked(in, dims.min(a, b));
  if (name == "max") return checked(in, dims.max(a, b));
  if (name == "value" && dims.value(a) && dims.value(b)) return checked(in, dims.data_value(*dims.value(a), *dims.value(b)));
  return in.error("unknown function '" + name + "'");
}

Result<Dim> parse_factor(DimTable& dims, TextCursor& in) {
  if (in.take("(")) {
    LATHE_TRY(const Dim d, parse_dim(dims, in));
    LATHE_CHECK_OK(in.expect(")"));
    return d;
  }
  if (in.peek() == '"') {
    LATHE_TRY(const std::string name, in.quoted());
    return dims.symbol(name);
  }
  if (in.at_word()) {
    LATHE_TRY(const std::string name, in.word());
    return in.take("(") ? parse_call(dims, in, name) : dims.symbol(name);
  }
  LATHE_TRY(const int64_t v, in.integer());
  return dims.constant(v);
}

Result<Dim> parse_term(DimTable& dims, TextCursor& in) {
  LATHE_TRY(Dim d, parse_factor(dims, in));
  while (in.take("*")) {
    LATHE_TRY(const Dim b, parse_factor(dims, in));
    LATHE_TRY(d, checked(in, dims.mul(d, b)));
  }
  return d;
}

// A minus before a digit belongs to the literal, so that the most negative constant can be read.
bool take_minus(TextCursor& in) { return !in.at_negative_integer() && in.take("-"); }

Result<Dim> parse_sum(DimTable& dims, TextCursor& in) {
  const bool negative = take_minus(in);
  LATHE_TRY(Dim d, parse_term(dims, in));
  if (negative) d = dims.mul(d, dims.constant(-1));
  LATHE_TRY(d, checked(in, d));
  for (;;) {
    const bool plus = in.take("+") || in.at_negative_integer();
    if (!plus && !in.take("-")) return d;
    LATHE_TRY(const Dim b, parse_term(dims, in));
    LATHE_TRY(d, checked(in, plus ? dims.add(d, b) : dims.sub(d, b)));
  }
}

}  // namespace

Result<Dim> parse_dim(DimTable& dims, TextCursor& in) {
  if (!in.enter()) return in.error("dimension is nested too deeply");
  auto d = parse_sum(dims, in);
  in.leave();
  return d;
}

Result<Dim> DimTable::parse(std::string_view text) {
  TextCursor in(text);
  LATHE_TRY(const Dim d, parse_dim(*this, in));
  if (!in.at_end()) return in.error("text follows the dimension");
  return d;
}

std::string DimTable::text(Dim d) const {
  if (!d.valid()) return "?";
  const DimNode& n = node(d);
  const Dim a{static_cast<uint32_t>(n.a)}, b{static_cast<uint32_t>(n.b)};
  switch (n.op) {
    case DimOp::kConst: return std::to_string(n.a);
    case DimOp::kSymbol: {
      const std::string& name = symbols_[static_cast<size_t>(n.a)];
      return is_word(name) ? name : quote(name);
    }
    case DimOp::kAdd: {
      const std::string right = text(b);
      return text(a) + (right[0] == '-' ? "" : "+") + right;  // N-4
    }
    case DimOp::kMul: {
      // Factors of a term are atoms and, last, its coefficient; the coefficient's sign leads, where it has a positive
      // counterpart.
      const auto c = value(b);
      if (!c || *c > 0 || *c == INT64_MIN) return text(a) + "*" + text(b);
      return "-" + text(a) + (*c == -1 ? "" : "*" + std::to_string(-*c));
    }
    case DimOp::kFloorDiv: return "floordiv(" + text(a) + "," + text(b) + ")";
    case DimOp::kMin: return "min(" + text(a) + "," + text(b) + ")";
    case DimOp::kMax: return "max(" + text(a) + "," + text(b) + ")";
    case DimOp::kValue: return "value(" + std::to_string(n.a) + "," + std::to_string(n.b) + ")";
    default: return "?";
  }
}

}  // namespace lathe
