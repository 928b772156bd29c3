// Are our functions of the driver and of NVRTC those of NVIDIA's headers?  A
// call is the same where arguments have the same sizes, and are numbers or
// addresses alike; those of numbers, of numbers of these sizes.  Compiled by
// check_cudaheaders.sh, which gives functions.inc and module.inc.
#include <cuda.h>
#include <nvrtc.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

typedef int CuResult;
typedef int CuDevice;
typedef struct CuContextIs *CuContext;
typedef struct CuModuleIs *CuModule;
typedef struct CuFunctionIs *CuFunction;
typedef struct CuStreamIs *CuStream;
typedef struct CuEventIs *CuEvent;
typedef struct CuGraphIs *CuGraph;
typedef struct CuNodeIs *CuGraphNode;
typedef struct CuGraphExecIs *CuGraphExec;
typedef struct CuKernelNode CuKernelNode;
typedef uint64_t CuDevicePtr;
typedef struct NvrtcProgramIs *NvrtcProgram;
typedef struct CUstream_st *Stream;

struct Driver {
#define CU(name, symbol, arguments) CuResult(*name) arguments;
#include "backend/cuda/driver.def"
};
struct Nvrtc {
#define NV(result, name, symbol, arguments) result(*name) arguments;
#include "backend/cuda/nvrtc.def"
};
#include "module.inc"

template <class T>
constexpr bool is_number = std::is_integral_v<T> || std::is_enum_v<T>;
template <class T>
constexpr bool is_any = std::is_void_v<T> || std::is_class_v<T>;

template <class A, class B> constexpr bool alike() {
  if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    typedef std::remove_cv_t<std::remove_pointer_t<A>> X;
    typedef std::remove_cv_t<std::remove_pointer_t<B>> Y;
    if constexpr (is_any<X> || is_any<Y>)
      return true;
    else
      return alike<X, Y>();
  } else {
    bool address = std::is_same_v<A, CuDevicePtr> && std::is_pointer_v<B>;
    return sizeof(A) == sizeof(B) &&
           (address || is_number<A> == is_number<B>) &&
           std::is_floating_point_v<A> == std::is_floating_point_v<B>;
  }
}

template <class R, class... A, class S, class... B>
constexpr bool same(R (*)(A...), S (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B))
    return false;
  else
    return alike<R, S>() && (alike<A, B>() && ...);
}

#define SAME(ours, theirs)                                                     \
  static_assert(same(decltype(ours)(nullptr), decltype(&theirs)(nullptr)),     \
                #theirs);
#include "functions.inc"
