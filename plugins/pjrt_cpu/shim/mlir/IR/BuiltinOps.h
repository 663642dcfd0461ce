// Stands in for the MLIR header of the same name, first on the include path of this folder only.
//
// The tensorflow wheel ships XLA's headers and MLIR's, but not LLVM's, which the real file needs. The plugin uses four things of
// MLIR: it makes a context, lets XLA parse a module into it, hands the module to the compiler, and lets it go. What is declared
// here has the layout and the mangled names of the library's own: a module is one pointer, a context is one owning pointer.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace mlir {

class MLIRContextImpl;
class DialectRegistry;

class Operation {
 public:
  void erase();
};

class MLIRContext {
 public:
  enum class Threading { DISABLED, ENABLED };
  explicit MLIRContext(Threading threading = Threading::ENABLED);
  ~MLIRContext();
  MLIRContext(const MLIRContext&) = delete;
  MLIRContext& operator=(const MLIRContext&) = delete;

 private:
  MLIRContextImpl* impl_;
};

class ModuleOp {
 public:
  ModuleOp(std::nullptr_t = nullptr) : operation_(nullptr) {}
  Operation* getOperation() const { return operation_; }
  operator Operation*() const { return operation_; }
  explicit operator bool() const { return operation_ != nullptr; }
  Operation* operator->() const { return operation_; }

 private:
  Operation* operation_;
};

static_assert(sizeof(MLIRContext) == sizeof(void*), "the library allocates one pointer");
static_assert(sizeof(ModuleOp) == sizeof(void*) && std::is_trivially_copyable<ModuleOp>::value, "passed in a register");

}  // namespace mlir

#include "mlir/IR/OwningOpRef.h"
