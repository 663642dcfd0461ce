#include "pathways/ir/dialect.h"

#include <algorithm>
#include <string_view>

#include "llvm/ADT/TypeSwitch.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "pathways/buffers/array_spec.h"

#include "pathways/ir/dialect.cc.inc"
#define GET_TYPEDEF_CLASSES
#include "pathways/ir/types.cc.inc"

namespace pw::ir {

void PwDialect::initialize() {
  addTypes<ArrayType>();
  addOperations<
#define GET_OP_LIST
#include "pathways/ir/ops.cc.inc"
      >();
}

namespace {

std::optional<buffers::DType> DTypeNamed(std::string_view name) {
  for (int32_t number = 1; number <= static_cast<int32_t>(buffers::DType::kF6E2M3FN); ++number) {
    absl::StatusOr<buffers::DType> dtype = buffers::DTypeFromNumber(number);
    if (dtype.ok() && buffers::Name(*dtype) == name) return *dtype;
  }
  return std::nullopt;
}

template <class Int>
mlir::ParseResult ParseInts(mlir::AsmParser& parser, llvm::SmallVectorImpl<Int>& ints) {
  return parser.parseCommaSeparatedList(mlir::AsmParser::Delimiter::Square,
                                        [&] { return parser.parseInteger(ints.emplace_back()); });
}

// f32[4, 8] @m0 [tiles ...] [order ...] [memory ...]
struct ArrayParts {
  buffers::DType dtype = buffers::DType::kInvalid;
  llvm::SmallVector<int64_t> dims, tiles;
  llvm::SmallVector<int32_t> order;
  mlir::StringAttr mesh;
  std::string memory;

  mlir::ParseResult Parse(mlir::AsmParser& parser) {
    const llvm::SMLoc start = parser.getCurrentLocation();
    llvm::StringRef name;
    if (parser.parseKeyword(&name)) return mlir::failure();
    const std::optional<buffers::DType> found = DTypeNamed({name.data(), name.size()});
    if (!found) return parser.emitError(start) << "there is no element type '" << name << "'";
    dtype = *found;
    if (ParseInts(parser, dims) || parser.parseSymbolName(mesh)) return mlir::failure();
    if (succeeded(parser.parseOptionalKeyword("tiles")) && ParseInts(parser, tiles)) return mlir::failure();
    if (succeeded(parser.parseOptionalKeyword("order")) && ParseInts(parser, order)) return mlir::failure();
    if (succeeded(parser.parseOptionalKeyword("memory")) && parser.parseString(&memory)) return mlir::failure();
    return mlir::success();
  }
};

}  // namespace

mlir::Type ArrayType::parse(mlir::AsmParser& parser) {
  ArrayParts parts;
  if (parser.parseLess() || parts.Parse(parser) || parser.parseGreater()) return {};
  auto mesh = mlir::FlatSymbolRefAttr::get(parts.mesh);
  return parser.getChecked<ArrayType>(parser.getContext(), parts.dtype, parts.dims, mesh, parts.tiles, parts.order, parts.memory);
}

void ArrayType::print(mlir::AsmPrinter& printer) const {
  printer << "<" << shape() << " " << getMesh();
  auto list = [&](const char* word, auto ints) {
    if (ints.empty()) return;
    printer << " " << word << " [";
    llvm::interleaveComma(ints, printer);
    printer << "]";
  };
  list("tiles", getTiles());
  list("order", getOrder());
  if (!getMemory().empty()) printer << " memory \"" << getMemory() << "\"";
  printer << ">";
}

std::string ArrayType::shape() const {
  const std::string_view name = buffers::Name(getDtype());
  std::string text;
  llvm::raw_string_ostream out(text);
  out << llvm::StringRef(name.data(), name.size()) << "[";
  llvm::interleaveComma(getDims(), out);
  out << "]";
  return text;
}

int64_t ArrayType::bytes() const {
  return buffers::DenseBytes(getDtype(), buffers::Dims(getDims().begin(), getDims().end())).value_or(0);
}

mlir::LogicalResult ArrayType::verify(llvm::function_ref<mlir::InFlightDiagnostic()> error, buffers::DType dtype,
                                      llvm::ArrayRef<int64_t> dims, mlir::FlatSymbolRefAttr, llvm::ArrayRef<int64_t> tiles,
                                      llvm::ArrayRef<int32_t> order, llvm::StringRef) {
  const absl::Status size = buffers::DenseBytes(dtype, buffers::Dims(dims.begin(), dims.end())).status();
  if (!size.ok()) return error() << std::string(size.message());
  if (!tiles.empty() && tiles.size() != dims.size()) {
    return error() << "an array of " << dims.size() << " dimensions cannot have tiles of " << tiles.size();
  }
  if (std::any_of(tiles.begin(), tiles.end(), [](int64_t count) { return count < 1; }))
    return error() << "tiles are counted from 1";
  if (!order.empty() && tiles.empty()) return error() << "an order of tiles needs tiles";
  return mlir::success();
}

mlir::Location MakeLocation(mlir::MLIRContext* context, int node, std::string_view place) {
  mlir::Location location = mlir::UnknownLoc::get(context);
  const llvm::StringRef text(place.data(), place.size());
  auto [source, function] = text.split(" in ");
  auto [file, line] = source.rsplit(':');
  if (unsigned number = 0; !line.empty() && !line.getAsInteger(10, number)) {
    location = mlir::FileLineColLoc::get(context, file, number, 0);
    if (!function.empty()) location = mlir::NameLoc::get(mlir::StringAttr::get(context, function), location);
  } else if (!text.empty()) {
    location = mlir::NameLoc::get(mlir::StringAttr::get(context, text));
  }
  return mlir::FusedLoc::get(context, location, mlir::IntegerAttr::get(mlir::IntegerType::get(context, 32), node));
}

std::optional<int> NodeOf(mlir::Location location) {
  auto fused = mlir::dyn_cast<mlir::FusedLocWith<mlir::IntegerAttr>>(location);
  if (!fused) return std::nullopt;
  return static_cast<int>(fused.getMetadata().getInt());
}

}  // namespace pw::ir
