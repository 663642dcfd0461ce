// Replaces the MLIR header of the same name; first on the include path of this folder only.
//
// The tensorflow wheel ships XLA's headers and MLIR's, but not LLVM's, which the real file needs. The plugin uses little of MLIR.
// It makes a context, lets XLA parse a module into it and passes the module to the compiler. It also reads an attribute of the
// module, and sets attributes of the arguments and results of its function. The declarations here match the library's layout and
// mangled names: a module, a function and an attribute are one pointer each, a context is one owning pointer.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

namespace llvm {

class StringRef {
 public:
  StringRef(std::string_view text) : data_(text.data()), size_(text.size()) {}
  operator std::string_view() const { return {data_, size_}; }

 private:
  const char* data_;
  size_t size_;
};

}  // namespace llvm

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

class Attribute {
 public:
  explicit operator bool() const { return storage_ != nullptr; }

 private:
  const void* storage_ = nullptr;
};

class StringAttr : public Attribute {
 public:
  explicit StringAttr(Attribute known) : Attribute(known) {}
  llvm::StringRef getValue() const;
};

class DictionaryAttr : public Attribute {
 public:
  Attribute get(llvm::StringRef name) const;  // null if there is none
};

class Type {
  const void* storage_ = nullptr;
};

Attribute parseAttribute(llvm::StringRef text, MLIRContext* context, Type type = {}, size_t* read = nullptr,
                         bool null_terminated = false);

class SymbolTable {
 public:
  static Operation* lookupSymbolIn(Operation* table, StringAttr name);
};

namespace func {
class FuncOp {
 public:
  explicit FuncOp(Operation* known) : operation_(known) {}

 private:
  Operation* operation_;
};
}  // namespace func

namespace function_interface_impl {
template <typename Function>
void setArgAttr(Function function, unsigned index, StringAttr name, Attribute value);
template <typename Function>
void setResultAttr(Function function, unsigned index, StringAttr name, Attribute value);
}  // namespace function_interface_impl

static_assert(sizeof(MLIRContext) == sizeof(void*), "the library allocates one pointer");
static_assert(sizeof(ModuleOp) == sizeof(void*) && std::is_trivially_copyable<ModuleOp>::value, "passed in a register");
static_assert(std::is_trivially_copyable<func::FuncOp>::value && std::is_trivially_copyable<StringAttr>::value, "likewise");
static_assert(std::is_trivially_copyable<llvm::StringRef>::value, "passed in two registers");

}  // namespace mlir

#include "mlir/IR/OwningOpRef.h"
