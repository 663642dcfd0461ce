#include "plugins/pjrt_cpu/fibers.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace pw::pjrt_cpu {
namespace {
constexpr size_t kStackBytes = size_t{512} << 10;  // only used pages are touched: some 20 KiB
}  // namespace

#if defined(__x86_64__)

// Saves the callee-saved state and the stack pointer, and loads others. The state includes the floating-point modes, because XLA
// changes them around a program.
extern "C" __attribute__((visibility("hidden"))) void PwSwitchStack(void** save, void* load);
asm(R"(
.text
.p2align 4
.hidden PwSwitchStack
.globl PwSwitchStack
.type PwSwitchStack, @function
PwSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size PwSwitchStack, .-PwSwitchStack
)");

namespace {
struct Context {
  void* sp = nullptr;
  void Prepare(char* stack, size_t size, void (*entry)()) {
    // The stack looks as if a switch had left `entry`: modes, six registers, return address; above them, the alignment that a
    // called function expects.
    auto* top = reinterpret_cast<uint64_t*>(stack + size) - 3;
    *top = 0;  // return address of `entry`, which never returns
    *--top = reinterpret_cast<uint64_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    uint32_t modes[2] = {0, 0};
    asm volatile("stmxcsr %0; fnstcw %1" : "=m"(modes[0]), "=m"(modes[1]));
    *--top = (uint64_t{modes[1]} << 32) | modes[0];
    sp = top;
  }
  static void Switch(Context& from, Context& to) { PwSwitchStack(&from.sp, to.sp); }
};
}  // namespace

#else

namespace {
struct Context {
  ucontext_t context;
  void Prepare(char* stack, size_t size, void (*entry)()) {
    getcontext(&context);
    context.uc_stack.ss_sp = stack;
    context.uc_stack.ss_size = size;
    context.uc_link = nullptr;
    makecontext(&context, entry, 0);
  }
  static void Switch(Context& from, Context& to) { swapcontext(&from.context, &to.context); }
};
}  // namespace

#endif

struct Fibers::Fiber {
  Fiber() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    mprotect(memory, page, PROT_NONE);  // an overflow faults instead of writing elsewhere
    stack = static_cast<char*>(memory) + page;
  }
  ~Fiber() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    munmap(stack - page, kStackBytes + page);
  }
  char* stack = nullptr;
  Context context;
  size_t index = 0;
  bool finished = false;
  Waiter* waiter = nullptr;  // null: not waiting
};

thread_local Fibers* Fibers::current_ = nullptr;

Fibers::Fibers() = default;
Fibers::~Fibers() { delete static_cast<Context*>(scheduler_); }

void Fibers::Entry() {
  Fibers* group = current_;
  Fiber& self = *group->running_;
  if (!(*group->body_)(self.index)) group->failed_ = true;
  self.finished = true;
  group->Yield();
  std::abort();  // a finished fiber is never resumed
}

void Fibers::Run(size_t count, absl::FunctionRef<bool(size_t)> body) {
  if (scheduler_ == nullptr) scheduler_ = new Context;
  while (fibers_.size() < count) fibers_.push_back(std::make_unique<Fiber>());
  current_ = this;
  count_ = count;
  body_ = &body;
  failed_ = false;
  for (size_t i = 0; i < count; ++i) {
    Fiber& fiber = *fibers_[i];
    fiber.index = i;
    fiber.finished = false;
    fiber.waiter = nullptr;
    fiber.context.Prepare(fiber.stack, kStackBytes, &Fibers::Entry);
  }
  for (size_t left = count; left > 0;) {
    bool any = false;
    for (size_t i = 0; i < count; ++i) {
      Fiber& fiber = *fibers_[i];
      if (!Runnable(fiber)) continue;
      any = true;
      Resume(fiber);
      if (fiber.finished) --left;
    }
    if (!any) SleepUntilRunnable();
  }
  body_ = nullptr;
  current_ = nullptr;
}

bool Fibers::Runnable(const Fiber& fiber) const {
  if (fiber.finished) return false;
  return fiber.waiter == nullptr || failed_ || fiber.waiter->set_.load(std::memory_order_acquire);
}

void Fibers::Resume(Fiber& fiber) {
  running_ = &fiber;
  Context::Switch(*static_cast<Context*>(scheduler_), fiber.context);
  running_ = nullptr;
}

void Fibers::Yield() { Context::Switch(running_->context, *static_cast<Context*>(scheduler_)); }

void Fibers::SleepUntilRunnable() {
  absl::MutexLock lock(&mu_);
  while (true) {
    for (size_t i = 0; i < count_; ++i) {
      if (Runnable(*fibers_[i])) return;
    }
    notified_.Wait(&mu_);
  }
}

Waiter::Waiter() : fibers_(Fibers::current_) {}

bool Waiter::Wait() {
  if (fibers_ == nullptr) {
    thread_.WaitForNotification();
    return true;
  }
  if (!set_.load(std::memory_order_acquire)) {
    fibers_->running_->waiter = this;
    Fibers::Fiber* const self = fibers_->running_;
    fibers_->Yield();
    self->waiter = nullptr;
  }
  return set_.load(std::memory_order_acquire);
}

void Waiter::Notify() {
  if (fibers_ == nullptr) return thread_.Notify();
  Fibers* const group = fibers_;
  if (group == Fibers::current_) {
    set_.store(true, std::memory_order_release);
    return;
  }
  absl::MutexLock lock(&group->mu_);
  set_.store(true, std::memory_order_release);
  group->notified_.Signal();
}

}  // namespace pw::pjrt_cpu
