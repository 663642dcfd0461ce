// Compiled into test binaries of the ThreadSanitizer build. Debian's abseil is not instrumented: the reference count by which copies of a
// Status on several threads share one message is dropped where ThreadSanitizer does not see it, so the last one to go looks like a race
// with those before it. Nothing else may be suppressed here: a suppression hides real races of ours too.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }
