#include "base/tree.h"

#include <algorithm>

namespace lathe {

bool Tree::as_number(double* out) const {
  if (const double* d = std::get_if<double>(&data_)) {
    *out = *d;
    return true;
  }
  if (const int64_t* i = as_int()) {
    *out = static_cast<double>(*i);
    return true;
  }
  return false;
}

const Tree* Tree::find(std::string_view key) const {
  const Table* table = as_table();
  if (table == nullptr) return nullptr;
  const auto it = std::find_if(table->begin(), table->end(), [&](const auto& entry) { return entry.first == key; });
  return it == table->end() ? nullptr : &it->second;
}

Tree& Tree::set(std::string_view key, Tree value) {
  auto& table = std::get<Table>(data_);
  const auto it = std::find_if(table.begin(), table.end(), [&](const auto& entry) { return entry.first == key; });
  if (it != table.end()) {
    it->second = std::move(value);
  } else {
    table.emplace_back(std::string(key), std::move(value));
  }
  return *this;
}

Tree& Tree::push(Tree value) {
  std::get<Array>(data_).push_back(std::move(value));
  return *this;
}

const char* Tree::kind_name() const {
  static constexpr const char* kNames[] = {"nothing", "a boolean", "an integer", "a number", "a string", "a list", "a table"};
  return kNames[data_.index()];
}

Result<TableReader> TableReader::open(const Tree& value, std::string where) {
  TableReader reader(value, std::move(where));
  if (value.as_table() == nullptr) return reader.error(value, std::string("expected a table, found ") + value.kind_name());
  return reader;
}

tl::unexpected<Error> TableReader::error(const Tree& at, std::string_view message) const {
  std::string text = where_;
  if (at.line() != 0) text += ":" + std::to_string(at.line());
  return fail(Code::kInvalidArgument, text + ": " + std::string(message));
}

tl::unexpected<Error> TableReader::missing(std::string_view key) const {
  return error(*value_, "key '" + std::string(key) + "' is missing");
}

tl::unexpected<Error> TableReader::wrong_kind(std::string_view key, const Tree& v, std::string_view wanted) const {
  return error(v, "'" + std::string(key) + "' must be " + std::string(wanted) + ", it is " + v.kind_name());
}

const Tree* TableReader::get(std::string_view key) {
  const Tree* v = value_->find(key);
  if (v != nullptr) used_.emplace_back(key);
  return v;
}

Result<std::string> TableReader::string(std::string_view key) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  if (v->as_string() == nullptr) return wrong_kind(key, *v, "a string");
  return *v->as_string();
}

Result<int64_t> TableReader::integer(std::string_view key, int64_t low, int64_t high) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  if (v->as_int() == nullptr) return wrong_kind(key, *v, "an integer");
  if (*v->as_int() < low || *v->as_int() > high)
    return error(*v, "'" + std::string(key) + "' must be between " + std::to_string(low) + " and " + std::to_string(high) +
                         ", it is " + std::to_string(*v->as_int()));
  return *v->as_int();
}

Result<double> TableReader::number(std::string_view key) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  double out = 0;
  if (!v->as_number(&out)) return wrong_kind(key, *v, "a number");
  return out;
}

Result<bool> TableReader::boolean(std::string_view key) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  if (v->as_bool() == nullptr) return wrong_kind(key, *v, "true or false");
  return *v->as_bool();
}

Result<std::vector<std::string>> TableReader::strings(std::string_view key) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  if (v->as_string() != nullptr) return std::vector<std::string>{*v->as_string()};
  if (v->as_array() == nullptr) return wrong_kind(key, *v, "a string or a list of strings");
  std::vector<std::string> out;
  for (const Tree& item : *v->as_array()) {
    if (item.as_string() == nullptr) return wrong_kind(key, item, "a list of strings");
    out.push_back(*item.as_string());
  }
  return out;
}

Result<std::vector<double>> TableReader::numbers(std::string_view key) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  double x = 0;
  if (v->as_number(&x)) return std::vector<double>{x};
  if (v->as_array() == nullptr) return wrong_kind(key, *v, "a number or a list of numbers");
  std::vector<double> out;
  for (const Tree& item : *v->as_array()) {
    if (!item.as_number(&x)) return wrong_kind(key, item, "a list of numbers");
    out.push_back(x);
  }
  return out;
}

Result<std::vector<int64_t>> TableReader::integers(std::string_view key, int64_t low, int64_t high) {
  const Tree* v = get(key);
  if (v == nullptr) return missing(key);
  Tree::Array one{*v};
  const Tree::Array* items = v->as_int() != nullptr ? &one : v->as_array();
  if (items == nullptr) return wrong_kind(key, *v, "an integer or a list of integers");
  std::vector<int64_t> out;
  for (const Tree& item : *items) {
    if (item.as_int() == nullptr) return wrong_kind(key, item, "a list of integers");
    if (*item.as_int() < low || *item.as_int() > high)
      return error(item, "'" + std::string(key) + "' must be between " + std::to_string(low) + " and " + std::to_string(high) +
                             ", one is " + std::to_string(*item.as_int()));
    out.push_back(*item.as_int());
  }
  return out;
}

Result<std::string> TableReader::string_or(std::string_view key, std::string otherwise) {
  if (value_->find(key) == nullptr) return otherwise;
  return string(key);
}

Result<int64_t> TableReader::integer_or(std::string_view key, int64_t low, int64_t high, int64_t otherwise) {
  if (value_->find(key) == nullptr) return otherwise;
  return integer(key, low, high);
}

Result<double> TableReader::number_or(std::string_view key, double otherwise) {
  if (value_->find(key) == nullptr) return otherwise;
  return number(key);
}

Result<bool> TableReader::boolean_or(std::string_view key, bool otherwise) {
  if (value_->find(key) == nullptr) return otherwise;
  return boolean(key);
}

Result<void> TableReader::finish() const {
  for (const auto& [key, value] : *value_->as_table())
    if (std::find(used_.begin(), used_.end(), key) == used_.end()) return error(value, "unknown key '" + key + "'");
  return {};
}

}  // namespace lathe
