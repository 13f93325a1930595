# A file as a C array: cmake -DINPUT=… -DOUTPUT=… -DNAME=… -P EmbedFile.cmake makes `NAME` and `NAME_len`.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include <stddef.h>\nextern const unsigned char ${NAME}[];\nextern const size_t ${NAME}_len;\n"
                       "const unsigned char ${NAME}[] = {${bytes}};\nconst size_t ${NAME}_len = sizeof ${NAME};\n")
