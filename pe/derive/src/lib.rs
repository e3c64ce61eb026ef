//! `#[derive(Event)]`: from a plain struct to its borrowed form and its columns.
//!
//! Batches are columnar because a row of text then costs a copy of its letters and no allocation.
//! Nobody wants to write three types per event, so this macro writes two of them. It decides by the
//! words in the source and knows no types: a field that is none of the plain ones says
//! `#[event(encoded)]`.
//!
//! The generated code names the engine as `starling`; in the crates below the facade, and in their
//! tests, that name is an alias (`use crate as starling`).

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Data, DeriveInput, Error, Field, Fields, GenericArgument, PathArguments, Type};

/// Makes `NameRef<'a>` (borrowed fields; no lifetime if nothing borrows) and `NameColumns`, and
/// implements `Event`.
///
/// Fields are integers up to 64 bits, `f32`, `f64`, `bool`, `String`, `Vec<u8>`, `Option` of these, or
/// any serde type under `#[event(encoded)]`.
#[proc_macro_derive(Event, attributes(event))]
pub fn derive_event(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as DeriveInput);
    expand(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// As `routing::FIELDS_MAX`.
const FIELDS_MAX: usize = 64;

fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let columns = columns(input)?;
    let (vis, event) = (&input.vis, &input.ident);
    let (event_ref, event_columns) = (format_ident!("{event}Ref"), format_ident!("{event}Columns"));
    let life = columns.iter().any(|column| column.borrows).then(|| quote!(<'a>));
    let name = event.to_string();
    let field: Vec<_> = columns.iter().map(|column| column.name).collect();
    let field_vis: Vec<_> = columns.iter().map(|column| column.vis).collect();
    let field_name: Vec<_> = field.iter().map(|field| bare(field)).collect();
    let borrowed: Vec<_> = columns.iter().map(|column| &column.borrowed).collect();
    let stored: Vec<_> = columns.iter().map(|column| &column.stored).collect();
    let lent: Vec<_> = columns.iter().map(|column| &column.lent).collect();
    let index = 0..columns.len();
    let (key_index, push_index) = (index.clone(), index.clone());
    let first = field[0];
    Ok(quote! {
        #[doc = concat!("[`", #name, "`], borrowed from a batch or from whoever emits it.")]
        #[derive(Clone, Copy, Debug)]
        #vis struct #event_ref #life {
            #(
                #[doc = concat!("See [`", #name, "`].")]
                #field_vis #field: #borrowed,
            )*
        }

        #[doc = concat!("A column for each field of [`", #name, "`].")]
        #[derive(Debug, Default)]
        #vis struct #event_columns { #(#field: #stored,)* }

        const _: () = {
            use starling::__derive as engine;

            impl engine::Event for #event {
                type Ref<'a> = #event_ref #life;
                type Columns = #event_columns;
                const SCHEMA: engine::Schema = engine::Schema {
                    name: #name,
                    fields: &[#(engine::FieldSchema {
                        name: #field_name,
                        kind: <#stored as engine::Store>::KIND,
                    }),*],
                };
            }

            engine::alone!(#event);

            impl<'a> engine::EventRef<'a> for #event_ref #life {
                type Event = #event;
            }

            impl<'a> ::core::convert::From<&'a #event> for #event_ref #life {
                fn from(event: &'a #event) -> Self {
                    Self { #(#field: #lent,)* }
                }
            }

            impl engine::Columns for #event_columns {
                type Event = #event;
                #[inline(always)]
                fn push(&mut self, event: <#event as engine::Event>::Ref<'_>) {
                    #(engine::Store::push(&mut self.#field, event.#field);)*
                }
                #[inline(always)]
                fn pack_one(
                    event: <#event as engine::Event>::Ref<'_>,
                    field: usize,
                ) -> ::core::option::Option<engine::Packed> {
                    match field {
                        #(#key_index => <#stored as engine::Store>::pack_one(event.#field),)*
                        _ => ::core::option::Option::None,
                    }
                }
                #[inline(always)]
                fn push_packed(
                    &mut self,
                    event: <#event as engine::Event>::Ref<'_>,
                    field: usize,
                    key: engine::Packed,
                ) {
                    #(if field == #push_index {
                        engine::Store::push_packed(&mut self.#field, event.#field, key);
                    } else {
                        engine::Store::push(&mut self.#field, event.#field);
                    })*
                }
                #[inline(always)]
                fn get(&self, row: usize) -> <#event as engine::Event>::Ref<'_> {
                    #event_ref { #(#field: engine::Store::get(&self.#field, row),)* }
                }
                fn extend_rows(&mut self, from: &Self, rows: &[u32]) {
                    #(engine::Store::extend_rows(&mut self.#field, &from.#field, rows);)*
                }
                #[inline(always)]
                fn rows(&self) -> usize {
                    engine::Column::rows(&self.#first)
                }
                fn clear(&mut self) {
                    #(engine::Store::clear(&mut self.#field);)*
                }
                fn truncate(&mut self, rows: usize) {
                    let rows = rows #(.min(engine::Column::rows(&self.#field)))*;
                    #(engine::Store::truncate(&mut self.#field, rows);)*
                }
                fn bytes(&self) -> usize {
                    0 #(+ engine::Column::bytes(&self.#field))*
                }
                #[inline(always)]
                fn is_heavy(&self) -> bool {
                    false #(|| engine::Store::is_heavy(&self.#field))*
                }
                fn column(&self, field: usize) -> &dyn engine::Column {
                    match field {
                        #(#index => &self.#field,)*
                        _ => panic!("fields are found by the schema of this event"),
                    }
                }
                fn encode(&self, out: &mut ::std::vec::Vec<u8>) {
                    #(engine::Store::encode(&self.#field, out);)*
                }
                fn decode(
                    &mut self,
                    rows: usize,
                    input: &mut &[u8],
                ) -> ::core::result::Result<(), engine::DecodeError> {
                    let decoded = (|| {
                        #(engine::Store::decode(&mut self.#field, rows, input)?;)*
                        ::core::result::Result::Ok(())
                    })();
                    if decoded.is_err() {
                        engine::Columns::clear(self);
                    }
                    decoded
                }
            }
        };
    })
}

/// The columns of a struct, or why it cannot be an event.
fn columns(input: &DeriveInput) -> syn::Result<Vec<Column<'_>>> {
    let Data::Struct(data) = &input.data else {
        let what = "an event is a struct: an enum would be several events; emit each to a stream of its own";
        return Err(Error::new_spanned(&input.ident, what));
    };
    let Fields::Named(fields) = &data.fields else {
        let what = "the fields of an event have names: config uses them as keys";
        return Err(Error::new_spanned(&input.ident, what));
    };
    if fields.named.is_empty() {
        let what = "an event has at least one field: a batch counts its rows by them";
        return Err(Error::new_spanned(&input.ident, what));
    }
    if fields.named.len() > FIELDS_MAX {
        let what = format!(
            "an event has at most {FIELDS_MAX} fields: a batch must fit a frame; put some \
                            of them into a struct and mark that #[event(encoded)]"
        );
        return Err(Error::new_spanned(&input.ident, what));
    }
    if !input.generics.params.is_empty() {
        let what = "an event has no type parameters or lifetimes: a stream carries one type; \
                    write the owned type, the macro makes the borrowed one";
        return Err(Error::new_spanned(&input.generics, what));
    }
    fields.named.iter().map(Column::new).collect()
}

/// The name of a field without `r#`.
fn bare(field: &syn::Ident) -> String {
    let name = field.to_string();
    name.strip_prefix("r#").map_or_else(|| name.clone(), ToOwned::to_owned)
}

struct Column<'f> {
    name: &'f syn::Ident,
    vis: &'f syn::Visibility,
    /// The type of the field in `NameRef`. Spelled out, not a projection: it reads better in
    /// documentation, and a projection would make `NameRef` invariant in its lifetime.
    borrowed: TokenStream,
    stored: TokenStream,
    borrows: bool,
    /// How a field of an owned event is lent.
    lent: TokenStream,
}

impl<'f> Column<'f> {
    fn new(field: &'f Field) -> syn::Result<Self> {
        let name = field.ident.as_ref().expect("the caller checked that fields are named");
        let ty = &field.ty;
        let mut is_encoded = false;
        for attr in field.attrs.iter().filter(|attr| attr.path().is_ident("event")) {
            attr.parse_nested_meta(|meta| {
                is_encoded = meta.path.is_ident("encoded");
                if is_encoded {
                    Ok(())
                } else {
                    Err(meta.error("unknown attribute: there is `encoded`"))
                }
            })?;
        }
        let (borrowed, stored, borrows) = if is_encoded {
            let borrowed = quote!(starling::__derive::Encoded<'a, #ty>);
            (borrowed, quote!(starling::__derive::EncodedColumn<#ty>), true)
        } else {
            let (borrowed, borrows) = borrow(ty)?;
            (borrowed, quote!(<#ty as starling::__derive::Field>::Column), borrows)
        };
        let lent = if is_encoded {
            quote!(starling::__derive::Encoded::Value(&event.#name))
        } else {
            quote!(starling::__derive::Field::lend(&event.#name))
        };
        Ok(Self { name, vis: &field.vis, borrowed, stored, borrows, lent })
    }
}

/// The borrowed form of a plain field type, and whether it borrows.
fn borrow(ty: &Type) -> syn::Result<(TokenStream, bool)> {
    const PLAIN: &[&str] =
        &["u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "f32", "f64", "bool"];
    let unknown = || {
        let what = "not a plain field of an event (integers up to 64 bits, f32, f64, bool, String, \
                    Vec<u8>, Option of these): write #[event(encoded)] before a field of any other \
                    serde type";
        Error::new_spanned(ty, what)
    };
    if let Type::Reference(_) = ty {
        let what = "an event declares owned fields: write String for &str, Vec<u8> for &[u8]; \
                    handlers get them borrowed";
        return Err(Error::new_spanned(ty, what));
    }
    let Type::Path(path) = ty else { return Err(unknown()) };
    let last = path.path.segments.last().ok_or_else(unknown)?;
    let argument = || match &last.arguments {
        PathArguments::AngleBracketed(args) => match args.args.first() {
            Some(GenericArgument::Type(inner)) => Ok(inner),
            _ => Err(unknown()),
        },
        PathArguments::None | PathArguments::Parenthesized(_) => Err(unknown()),
    };
    match last.ident.to_string().as_str() {
        plain if PLAIN.contains(&plain) => Ok((quote!(#ty), false)),
        "String" => Ok((quote!(&'a str), true)),
        "Vec" if matches!(argument()?, Type::Path(inner) if inner.path.is_ident("u8")) => {
            Ok((quote!(&'a [u8]), true))
        }
        "Option" => {
            let (inner, borrows) = borrow(argument()?)?;
            Ok((quote!(::core::option::Option<#inner>), borrows))
        }
        _ => Err(unknown()),
    }
}

#[cfg(test)]
mod tests {
    use quote::ToTokens;
    use syn::parse_quote;

    use super::*;

    /// Why a struct is refused, and what it is.
    fn refused(input: &DeriveInput) -> (String, String) {
        let error = expand(input).expect_err("it cannot be an event");
        (error.to_string(), input.to_token_stream().to_string())
    }

    #[test]
    fn what_cannot_be_an_event_is_refused_with_what_to_write_instead() {
        let many: Vec<_> = (0..65).map(|field| format_ident!("f{field}")).collect();
        let cases: Vec<(DeriveInput, &str)> = vec![
            (
                parse_quote! { enum E { A, B } },
                "an event is a struct: an enum would be several events; emit each to a stream of its own",
            ),
            (
                parse_quote! { union U { a: u32, b: f32 } },
                "an event is a struct: an enum would be several events; emit each to a stream of its own",
            ),
            (
                parse_quote! { struct Pair(u64, u64); },
                "the fields of an event have names: config uses them as keys",
            ),
            (
                parse_quote! { struct Unit; },
                "the fields of an event have names: config uses them as keys",
            ),
            (
                parse_quote! { struct Empty {} },
                "an event has at least one field: a batch counts its rows by them",
            ),
            (
                parse_quote! { struct Many { #(#many: u64,)* } },
                "an event has at most 64 fields: a batch must fit a frame; put some of them into a struct \
                 and mark that #[event(encoded)]",
            ),
            (
                parse_quote! { struct Generic<T> { value: T } },
                "an event has no type parameters or lifetimes: a stream carries one type; write the owned \
                 type, the macro makes the borrowed one",
            ),
            (
                parse_quote! { struct Word<'a> { text: &'a str } },
                "an event has no type parameters or lifetimes: a stream carries one type; write the owned \
                 type, the macro makes the borrowed one",
            ),
            (
                parse_quote! { struct Word { text: &'static str } },
                "an event declares owned fields: write String for &str, Vec<u8> for &[u8]; handlers get \
                 them borrowed",
            ),
            (
                parse_quote! { struct Word { #[event(encode)] tags: Vec<String> } },
                "unknown attribute: there is `encoded`",
            ),
        ];
        for (input, text) in cases {
            let (found, source) = refused(&input);
            assert_eq!(found, text, "for {source}");
        }
    }

    #[test]
    fn a_field_that_is_not_plain_is_told_of_the_attribute() {
        const TEXT: &str = "not a plain field of an event (integers up to 64 bits, f32, f64, bool, String, \
                            Vec<u8>, Option of these): write #[event(encoded)] before a field of any other \
                            serde type";
        let cases: Vec<DeriveInput> = vec![
            parse_quote! { struct E { f: Vec<String> } },
            parse_quote! { struct E { f: u128 } },
            parse_quote! { struct E { f: usize } },
            parse_quote! { struct E { f: char } },
            parse_quote! { struct E { f: (u8, u8) } },
            parse_quote! { struct E { f: [u8; 4] } },
            parse_quote! { struct E { f: Option<Vec<u16>> } },
            parse_quote! { struct E { f: Option } },
            parse_quote! { struct E { f: std::time::Duration } },
        ];
        for input in cases {
            let (found, source) = refused(&input);
            assert_eq!(found, TEXT, "for {source}");
        }
    }

    #[test]
    fn a_plain_struct_gets_a_borrowed_form_with_a_lifetime_only_if_something_borrows() {
        let expanded = |input: DeriveInput| expand(&input).expect("an event").to_string();
        let word = expanded(parse_quote! { pub struct Word { pub r#type: String, n: Option<u8> } });
        assert!(word.contains("pub struct WordRef < 'a >"), "{word}");
        assert!(word.contains(r#"name : "type""#), "the schema has the name without r#: {word}");
        let count = expanded(parse_quote! { struct Count { n: u64, share: Option<f32> } });
        assert!(count.contains("struct CountRef {"), "{count}");
        let tags = expanded(parse_quote! { struct Tags { #[event(encoded)] tags: Vec<String> } });
        assert!(tags.contains("struct TagsRef < 'a >"), "{tags}");
    }
}
