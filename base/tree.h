// A tree of configuration or report data: what JSON and TOML files parse to, and what `--json` prints.
//
// Tables keep the order of their keys. Values from a file remember their line, so that whoever interprets them can say where a
// mistake is. Plain values: copyable, thread-safe to read.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace lathe {

class Tree {
 public:
  using Array = std::vector<Tree>;
  using Table = std::vector<std::pair<std::string, Tree>>;

  Tree() = default;  // null
  Tree(bool v) : data_(v) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  Tree(T v) : data_(static_cast<int64_t>(v)) {}
  Tree(double v) : data_(v) {}
  Tree(std::string v) : data_(std::move(v)) {}
  Tree(std::string_view v) : data_(std::string(v)) {}
  Tree(const char* v) : data_(std::string(v)) {}
  static Tree array(Array items = {}) { return Tree(Data(std::move(items))); }
  static Tree table() { return Tree(Data(Table{})); }

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  // nullptr if the value is of another kind.
  const bool* as_bool() const { return std::get_if<bool>(&data_); }
  const int64_t* as_int() const { return std::get_if<int64_t>(&data_); }
  const std::string* as_string() const { return std::get_if<std::string>(&data_); }
  const Array* as_array() const { return std::get_if<Array>(&data_); }
  const Table* as_table() const { return std::get_if<Table>(&data_); }
  // True, and *out set, for a float or an integer.
  bool as_number(double* out) const;

  // The entry of a table, or nullptr (also when this is no table).
  const Tree* find(std::string_view key) const;

  // Building. set() replaces an entry of the same name. Requires: this is a table (set) or an array (push).
  Tree& set(std::string_view key, Tree value);
  Tree& push(Tree value);

  // Line in the file that it came from, from 1; 0 if it came from elsewhere.
  uint32_t line() const { return line_; }
  void set_line(uint32_t line) { line_ = line; }

  // What messages call it: "a string", "a table", ...
  const char* kind_name() const;
  // Equal contents; lines do not count.
  bool operator==(const Tree& other) const { return data_ == other.data_; }

 private:
  using Data = std::variant<std::monostate, bool, int64_t, double, std::string, Array, Table>;
  explicit Tree(Data data) : data_(std::move(data)) {}

  Data data_;
  uint32_t line_ = 0;
};

// Reads a table strictly: a missing key, a wrong kind and a key that nobody asked for are errors that name file, line and key.
// `where` stands before each message ("set.toml"). Holds pointers into `table`, which must outlive it.
class TableReader {
 public:
  // Fails if `value` is no table.
  static Result<TableReader> open(const Tree& value, std::string where);

  const std::string& where() const { return where_; }
  // The entry, marked as used; nullptr if it is not there.
  const Tree* get(std::string_view key);

  Result<std::string> string(std::string_view key);
  Result<int64_t> integer(std::string_view key, int64_t low, int64_t high);
  Result<double> number(std::string_view key);
  Result<bool> boolean(std::string_view key);
  // A list of strings or numbers; a single one stands for a list of one.
  Result<std::vector<std::string>> strings(std::string_view key);
  Result<std::vector<double>> numbers(std::string_view key);
  Result<std::vector<int64_t>> integers(std::string_view key, int64_t low, int64_t high);

  // The same with a default for a key that is not there.
  Result<std::string> string_or(std::string_view key, std::string otherwise);
  Result<int64_t> integer_or(std::string_view key, int64_t low, int64_t high, int64_t otherwise);
  Result<double> number_or(std::string_view key, double otherwise);
  Result<bool> boolean_or(std::string_view key, bool otherwise);

  // "<where>:<line>: <message>", for checks of the caller's own.
  tl::unexpected<Error> error(const Tree& at, std::string_view message) const;
  // The error "<where>: key '<key>' is missing".
  tl::unexpected<Error> missing(std::string_view key) const;
  // Fails if the table has a key that was never asked for.
  Result<void> finish() const;

 private:
  TableReader(const Tree& value, std::string where) : value_(&value), where_(std::move(where)) {}
  tl::unexpected<Error> wrong_kind(std::string_view key, const Tree& v, std::string_view wanted) const;

  const Tree* value_;
  std::string where_;
  std::vector<std::string> used_;
};

}  // namespace lathe
