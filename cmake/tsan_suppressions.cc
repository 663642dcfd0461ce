// Compiled into test binaries of the ThreadSanitizer build. Debian's abseil is not instrumented: ThreadSanitizer does not see the
// reference count by which copies of a Status on several threads share one message. The last copy's end therefore looks like a
// race with the others. Suppress nothing else here: a suppression also hides real races of ours.
extern "C" const char* __tsan_default_suppressions();

extern "C" const char* __tsan_default_suppressions() { return "race:absl::*Status::Unref\n"; }
