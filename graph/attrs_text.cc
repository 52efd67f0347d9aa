#include "graph/attrs_text.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <vector>

namespace lathe {
namespace {

bool equal(int32_t a, int32_t b) { return a == b; }
bool equal(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }
bool equal(const Ints& a, const Ints& b) { return a == b; }
template <size_t N>
bool equal(const int32_t (&a)[N], const int32_t (&b)[N]) { return std::memcmp(a, b, sizeof(a)) == 0; }

std::string print_list(const int32_t* values, size_t count) {
  std::string s = "[";
  for (size_t i = 0; i < count; ++i) s += (i ? "," : "") + std::to_string(values[i]);
  return s + "]";
}
std::string print_member(int32_t v) { return std::to_string(v); }
std::string print_member(float v) { return print_float(v); }
std::string print_member(const Ints& v) {
  return print_list(v.values, static_cast<size_t>(std::clamp<int32_t>(v.count, 0, kMaxRank)));
}
template <size_t N>
std::string print_member(const int32_t (&v)[N]) { return print_list(v, N); }

Result<void> parse_member(TextCursor& in, int32_t& out) {
  LATHE_TRY(const int64_t v, in.integer());
  if (v < std::numeric_limits<int32_t>::min() || v > std::numeric_limits<int32_t>::max()) return in.error("integer is too large");
  out = static_cast<int32_t>(v);
  return {};
}
Result<void> parse_member(TextCursor& in, float& out) {
  LATHE_TRY(out, in.real<float>());
  return {};
}
Result<void> parse_member(TextCursor& in, Ints& out) {
  out = {};
  LATHE_CHECK_OK(in.expect("["));
  while (!in.take("]")) {
    if (out.count > 0) LATHE_CHECK_OK(in.expect(","));
    if (out.count == static_cast<int32_t>(kMaxRank)) return in.error("list is longer than " + std::to_string(kMaxRank));
    LATHE_CHECK_OK(parse_member(in, out.values[out.count++]));
  }
  return {};
}
template <size_t N>
Result<void> parse_member(TextCursor& in, int32_t (&out)[N]) {
  Ints list;
  LATHE_CHECK_OK(parse_member(in, list));
  if (list.count != static_cast<int32_t>(N))
    return in.error("list has " + std::to_string(list.count) + " entries, must have " + std::to_string(N));
  std::copy(list.values, list.values + N, out);
  return {};
}

// Calls fn(member of a, the same member of b, name) for every member. Requires: both of type T.
template <class T, class Fn>
void visit_pairs(const T& a, const T& b, Fn&& fn) {
  std::vector<const void*> others;
  T::visit(b, [&](const char*, const auto& m) { others.push_back(&m); });
  size_t i = 0;
  T::visit(
      a, [&](const char* name, const auto& m) { fn(m, *static_cast<std::remove_reference_t<decltype(m)>*>(others[i++]), name); });
}

template <class T>
Result<void> parse_members(T& attrs, TextCursor& in) {
  for (bool first = true; !in.take("}"); first = false) {
    if (!first) LATHE_CHECK_OK(in.expect(","));
    LATHE_TRY(const std::string wanted, in.word());
    LATHE_CHECK_OK(in.expect("="));
    Result<void> status = in.error("unknown attribute '" + wanted + "'");
    T::visit(attrs, [&](const char* name, auto& member) {
      if (wanted == name) status = parse_member(in, member);
    });
    LATHE_CHECK_OK(status);
  }
  return {};
}

template <class T>
std::string print_number(T v) {
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), v).ptr;
  return {buffer, end};
}

}  // namespace

std::string print_float(float v) { return print_number(v); }
std::string print_float(double v) { return print_number(v); }

std::string print_attrs(const Attrs& attrs) {
  std::string s;
  std::visit(
      [&]<class T>(const T& a) {
        visit_pairs(a, T{}, [&](const auto& member, const auto& standard, const char* name) {
          if (!equal(member, standard)) s += std::string(s.empty() ? "{" : ", ") + name + "=" + print_member(member);
        });
      },
      attrs);
  return s.empty() ? s : s + "}";
}

Result<Attrs> parse_attrs(Op op, TextCursor& in) {
  Attrs attrs = default_attrs(op);
  if (!in.take("{")) return attrs;
  LATHE_CHECK_OK(std::visit([&](auto& a) { return parse_members(a, in); }, attrs));
  return attrs;
}

bool equal_attrs(const Attrs& a, const Attrs& b) {
  if (a.index() != b.index()) return false;
  bool same = true;
  std::visit(
      [&]<class T>(const T& x) {
        visit_pairs(x, std::get<T>(b), [&](const auto& m, const auto& n, const char*) { same = same && equal(m, n); });
      },
      a);
  return same;
}

}  // namespace lathe
