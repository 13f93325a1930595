/*
 * read_tls.c - certificates, keys and names of TLS, as the file says them.
 *
 * Left out: what is in the files. Only who uses them can tell (proxy/tls.c), and says it at the places that are noted
 * here.
 */
#include "conf/address.h"
#include "conf/own.h"
#include "proxy/span.h"

void read_file_name(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_file *file = target;
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, "the name of a file", &scalar))
        return;
    if (*scalar.text == '\0')
        reader_error(reader, node, "expected the name of a file, not an empty text");
    struct place place = reader_place(reader, node);
    *file = (struct conf_file){conf_copy(reader->conf, scalar.text, strlen(scalar.text)), (int)place.line,
                               (int)place.column};
}

void print_file_name(const void *target, FILE *out)
{
    const struct conf_file *file = target;
    fputs(file->path ? file->path : "none", out);
}

void read_server_name(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    static const char expected[] = "a host name without a port";
    struct scalar scalar;
    (void)setting;
    if (!reader_scalar(reader, node, expected, &scalar))
        return;
    if (address_is_host(scalar.text))
        *(char **)target = conf_copy(reader->conf, scalar.text, strlen(scalar.text));
    else
        reader_error(reader, node, "expected %s, not '%s'", expected, scalar.text);
}

/* ---- listen ----------------------------------------------------------------------------------- */

void read_listen_tls(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    struct conf_listen *listen = target;
    if (!reader_mapping(reader, node, "a mapping with 'certificate' and 'key'"))
        return;
    listen->tls = true;
    reader_section(reader, setting->section, node, listen);
}

/* ---- upstreams -------------------------------------------------------------------------------- */

void read_upstream_tls(struct reader *reader, const struct setting *setting, const yaml_node_t *node, void *target)
{
    if (reader_mapping(reader, node, "a mapping"))
        reader_section(reader, setting->section, node, target);
}

void check_upstream_tls(struct reader *reader, const yaml_node_t *node, const struct conf_upstream *upstream)
{
    yaml_node_t *key = NULL;
    const yaml_node_t *tls = document_member(reader->document, node, "tls", &key);
    if (!tls || tls->type != YAML_MAPPING_NODE || !upstream->authority)
        return;
    if (!upstream->tls)
        reader_error(reader, key, "tls: only for an url that begins with https://");
    if (!upstream->tls_settings.certificate.path != !upstream->tls_settings.key.path)
        reader_error(reader, tls, "tls: certificate and key belong together");
    const yaml_node_t *verify = document_member(reader->document, tls, "verify", NULL);
    if (upstream->tls && verify && !upstream->tls_settings.verify && reader->report->errors == 0)
        reader_warn_at(reader, reader_place(reader, verify),
                       "%s.tls.verify: the certificate of this upstream is not verified: anybody in between can read "
                       "and change all",
                       reader->path);
}

void print_upstream_tls(const void *target, FILE *out)
{
    const struct conf_upstream *upstream = target;
    if (!upstream->tls) {
        fputs("none", out);
        return;
    }
    const char *name = upstream->tls_settings.server_name ? upstream->tls_settings.server_name : upstream->host;
    const char *ca = upstream->tls_settings.ca.path;
    if (upstream->tls_settings.verify)
        fprintf(out, "verified as %s by %s", name, ca ? ca : "the authorities of the system");
    else
        fprintf(out, "not verified, asked for as %s", name);
    if (upstream->tls_settings.certificate.path)
        fprintf(out, ", with certificate %s", upstream->tls_settings.certificate.path);
}

/* ---- written back ----------------------------------------------------------------------------- */

void write_file_name(struct writer *writer, const struct setting *setting, const void *target)
{
    write_text(writer, setting, ((const struct conf_file *)target)->path);
}

void write_listen_tls(struct writer *writer, const struct setting *setting, const void *target)
{
    if (!((const struct conf_listen *)target)->tls) {
        write_absent(writer, setting);
        return;
    }
    writer_open(writer, setting_key(setting));
    writer_section(writer, setting->section, target);
    writer_close(writer);
}

/* Refused where the url is not https, so not written there. */
void write_upstream_tls(struct writer *writer, const struct setting *setting, const void *target)
{
    if (!((const struct conf_upstream *)target)->tls)
        return;
    writer_open(writer, setting_key(setting));
    writer_section(writer, setting->section, target);
    writer_close(writer);
}
