package interop;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/** Calls what older versions of Redisson lack, so that one source compiles with all. */
final class Newer {
    private Newer() {}

    static Object call(Object object, String name, Object... arguments) {
        for (Method method : object.getClass().getMethods()) {
            if (method.getName().equals(name) && fits(method.getParameterTypes(), arguments)) {
                try {
                    return method.invoke(object, arguments);
                } catch (InvocationTargetException error) {
                    throw error.getCause() instanceof RuntimeException
                            ? (RuntimeException) error.getCause()
                            : new IllegalStateException(error.getCause());
                } catch (IllegalAccessException error) {
                    throw new IllegalStateException(error);
                }
            }
        }
        throw new UnsupportedOperationException("this version has no " + name);
    }

    /** Sets a NameMapper, which older versions have elsewhere, that puts the prefix before each name. */
    static void putBeforeNames(Object config, String prefix) {
        for (Method method : config.getClass().getMethods()) {
            if (method.getName().equals("setNameMapper")) {
                Class<?> mapper = method.getParameterTypes()[0];
                call(config, "setNameMapper", Proxy.newProxyInstance(
                        mapper.getClassLoader(), new Class<?>[] {mapper},
                        (self, called, names) -> called.getName().equals("map")
                                ? prefix + names[0]
                                : ((String) names[0]).substring(prefix.length())));
                return;
            }
        }
        throw new UnsupportedOperationException("this version has no setNameMapper here");
    }

    private static boolean fits(Class<?>[] types, Object[] arguments) {
        if (types.length != arguments.length) {
            return false;
        }
        for (int i = 0; i < types.length; i++) {
            boolean number = types[i] == long.class && arguments[i] instanceof Long
                    || types[i] == int.class && arguments[i] instanceof Integer;
            if (!number && !types[i].isInstance(arguments[i])) {
                return false;
            }
        }
        return true;
    }
}
