// Text and equality of attribute structs, from their visit() lists.
#pragma once
#include <string>

#include "graph/ir.h"
#include "graph/text_cursor.h"

namespace lathe {

// "{stride=[2,2], lo=0}": members that differ from their defaults, in the order of visit(); empty if there are none.
std::string print_attrs(const Attrs& attrs);
// What print_attrs gives for `op`; members that are not named have their defaults. Nothing at all is the defaults too.
Result<Attrs> parse_attrs(Op op, TextCursor& in);
// Same struct, same members; floats by their bits, so that NaN equals itself and -0 is not 0.
bool equal_attrs(const Attrs& a, const Attrs& b);

// Shortest decimal that reads back to the same float; inf, -inf, nan.
std::string print_float(float v);
std::string print_float(double v);

}  // namespace lathe
