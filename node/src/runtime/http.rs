//! What a node shows over HTTP.
//!
//! A browser or a command asks one node, and gets what that node knows: its status, its tables, and
//! whether it is of use. It can be told to leave, or to go on without a lost majority, by whoever brings the
//! token that is in its data directory. The node itself is asked through a channel, so a
//! node that is stuck is told apart from one that is not there.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::Server;
use actix_web::http::header::ContentType;
use actix_web::{App, HttpRequest, HttpResponse, HttpServer, Resource, Route, guard, web};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::dead_letters::{DeadLetters, KeptLetter};
use super::driver::Notice;
use super::identity::TOKEN_FILE;
use super::look::{LookFailure, LookOf, LookRequest};
use super::tables::Tables;
use crate::core::{Input, Status};

/// How the node is reached from here.
#[derive(Clone)]
pub(super) struct Doors {
    pub(super) status: StatusDoor,
    /// Where it takes orders.
    pub(super) orders: mpsc::Sender<Notice>,
    /// What an order has to bring.
    pub(super) token: String,
    /// Events that were tried often enough.
    pub(super) letters: Arc<DeadLetters>,
}

/// A PE that has events of a tree, on the node that answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeHolder {
    /// The topology.
    pub topology: String,
    /// The PE.
    pub pe: String,
    /// How it has them: in words.
    pub how: String,
    /// How many events, or anchors.
    pub count: u64,
}

/// Where the node is asked for its status: it answers what it is sent.
pub(super) type StatusDoor = mpsc::Sender<oneshot::Sender<Status>>;

/// How long the node may take to answer. It answers between two steps, so this is far too long unless
/// it is stuck.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most connections at a time: people and their tools, not a public.
const CONNECTIONS_MAX: usize = 256;

/// The most bytes of a request's body; none is looked at.
const BODY_MAX: usize = 4 << 10;

/// How long a connection may say nothing between two requests, take for the head of one, and take to go.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const DISCONNECT_LIMIT: Duration = Duration::from_secs(2);

/// Serves on a listener, in a thread of its own, from when the result is awaited or spawned on the
/// current actix system.
pub(super) fn serve(listener: TcpListener, tables: Arc<Tables>, doors: Doors) -> Server {
    let desk = web::Data::new(Desk { tables, doors, patience: PATIENCE });
    let app = move || {
        let limit = web::PayloadConfig::new(BODY_MAX);
        App::new().app_data(desk.clone()).app_data(limit).configure(routes)
    };
    let server = HttpServer::new(app)
        .workers(1)
        .disable_signals()
        .max_connections(CONNECTIONS_MAX)
        .keep_alive(KEEP_ALIVE)
        .client_request_timeout(REQUEST_LIMIT)
        .client_disconnect_timeout(DISCONNECT_LIMIT)
        .shutdown_timeout(1)
        .listen(listener)
        .expect("a listener that is bound can be made non-blocking");
    server.run()
}

/// What the answers are made of.
struct Desk {
    tables: Arc<Tables>,
    doors: Doors,
    patience: Duration,
}

impl Desk {
    /// Asks the node; `None` if it does not answer.
    async fn status(&self) -> Option<Status> {
        let asked = async {
            let (reply, answer) = oneshot::channel();
            self.doors.status.send(reply).await.ok()?;
            answer.await.ok()
        };
        tokio::time::timeout(self.patience, asked).await.ok().flatten()
    }
}

fn routes(config: &mut web::ServiceConfig) {
    config
        .service(resource("/api/v1/status", reading().to(status)))
        .service(resource("/api/v1/tables", reading().to(table_names)))
        .service(resource("/api/v1/tables/{name}", reading().to(table)))
        .service(resource("/api/v1/trees/{root}", reading().to(tree)))
        .service(resource("/api/v1/instances/{pe}", reading().to(instance)))
        .service(resource("/api/v1/dlq", reading().to(dead_letters)))
        .service(order("/api/v1/dlq/{id}/replay", web::post().to(resend)))
        .service(order("/api/v1/drain", web::post().to(drain)))
        .service(order("/api/v1/recover", web::post().to(recover)))
        .service(resource("/healthz", reading().to(healthz)))
        .service(resource("/readyz", reading().to(readyz)))
        .default_service(web::to(missing));
}

fn resource(path: &str, route: Route) -> Resource {
    web::resource(path).route(route).default_service(web::to(refused))
}

/// A path where something is changed.
fn order(path: &str, route: Route) -> Resource {
    web::resource(path).route(route).default_service(web::to(not_an_order))
}

fn reading() -> Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

async fn status(desk: web::Data<Desk>) -> HttpResponse {
    match desk.status().await {
        Some(status) => HttpResponse::Ok().json(status),
        None => unavailable(SILENT),
    }
}

/// Who has events of a tree.
async fn tree(desk: web::Data<Desk>, root: web::Path<String>) -> HttpResponse {
    let Ok(root) = u64::from_str_radix(&root, 16) else {
        return not_found("a tree is called by 16 hexadecimal digits");
    };
    let asked = async {
        let (reply, answer) = oneshot::channel();
        desk.doors.orders.send(Notice::Explain(root, reply)).await.ok()?;
        answer.await.ok()
    };
    match tokio::time::timeout(desk.patience, asked).await.ok().flatten() {
        Some(holders) => HttpResponse::Ok().json(json!({ "holders": holders })),
        None => unavailable(SILENT),
    }
}

/// What an instance is, or where. Who does not own it says who does.
async fn instance(
    request: HttpRequest,
    desk: web::Data<Desk>,
    pe: web::Path<String>,
    query: web::Query<Vec<(String, String)>>,
) -> HttpResponse {
    let mut wanted =
        LookRequest { pe: pe.into_inner(), key: Vec::new(), topology: None, of: LookOf::Owner };
    for (name, value) in query.into_inner() {
        let of = LookOf::ALL.into_iter().find(|of| of.as_str() == value);
        match (name.as_str(), of) {
            ("key", _) => wanted.key.push(value),
            ("topology", _) => wanted.topology = Some(value),
            ("of", Some(of)) => wanted.of = of,
            _ => return unclear(&format!("{name}={value} means nothing here")),
        }
    }
    let of = wanted.of;
    let asked = async {
        let (reply, answer) = oneshot::channel();
        desk.doors.orders.send(Notice::Look(wanted, reply)).await.ok()?;
        answer.await.ok()
    };
    let view = match tokio::time::timeout(desk.patience, asked).await.ok().flatten() {
        Some(Ok(view)) => view,
        Some(Err(LookFailure::Unclear(why))) => return unclear(&why),
        Some(Err(LookFailure::Unknown(why))) => return not_found(&why),
        Some(Err(LookFailure::Hidden(why))) => return unavailable(&why),
        None => return unavailable(SILENT),
    };
    let elsewhere =
        view.owner.http.filter(|_| view.is_served && view.owner.node != view.answered_by);
    match (view.found, of, elsewhere) {
        (Some(true), ..) | (None, LookOf::Place, _) => HttpResponse::Ok().json(view),
        (Some(false), ..) => HttpResponse::NotFound().json(view),
        (None, LookOf::Owner | LookOf::Copy, Some(owner)) => {
            let location = format!("http://{owner}{}", request.uri());
            HttpResponse::TemporaryRedirect().insert_header(("Location", location)).json(view)
        }
        (None, LookOf::Owner | LookOf::Copy, None) => HttpResponse::ServiceUnavailable().json(view),
    }
}

/// Reads the file of dead letters aside: it may be long.
async fn all_letters(desk: &Desk) -> Result<Vec<KeptLetter>, String> {
    let letters = Arc::clone(&desk.doors.letters);
    match web::block(move || letters.all()).await {
        Ok(letters) => letters.map_err(|error| error.to_string()),
        Err(_) => Err(SILENT.to_owned()),
    }
}

async fn dead_letters(desk: web::Data<Desk>) -> HttpResponse {
    match all_letters(&desk).await {
        Ok(letters) => HttpResponse::Ok().json(json!({ "letters": letters })),
        Err(error) => unavailable(&error),
    }
}

async fn resend(request: HttpRequest, desk: web::Data<Desk>, id: web::Path<u64>) -> HttpResponse {
    if let Some(answer) = refusal(&request, &desk) {
        return answer;
    }
    let letters = match all_letters(&desk).await {
        Ok(letters) => letters,
        Err(error) => return unavailable(&error),
    };
    let Some(kept) = letters.into_iter().find(|letter| letter.id == *id) else {
        return not_found(&format!("no dead letter {id} on this node"));
    };
    if let Err(error) = desk.doors.letters.note_resent(*id) {
        return unavailable(&error.to_string());
    }
    match desk.doors.orders.send(Notice::Resend(kept.letter)).await {
        Ok(()) => HttpResponse::Accepted().json(json!({ "accepted": true })),
        Err(_) => unavailable(SILENT),
    }
}

async fn drain(request: HttpRequest, desk: web::Data<Desk>) -> HttpResponse {
    take_order(&request, &desk, Notice::Stop).await
}

async fn recover(request: HttpRequest, desk: web::Data<Desk>) -> HttpResponse {
    take_order(&request, &desk, Notice::Core(Input::RecoverUnsafe)).await
}

/// What to answer to an order without the token; nothing to one that has it.
fn refusal(request: &HttpRequest, desk: &Desk) -> Option<HttpResponse> {
    let given = request.headers().get("Authorization").and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if !is_same(given.as_bytes(), desk.doors.token.as_bytes()) {
        let error =
            format!("an order needs the token in {TOKEN_FILE} of the node's data directory");
        return Some(HttpResponse::Unauthorized().json(json!({ "error": error })));
    }
    None
}

/// Passes an order on, if it has the token.
async fn take_order(request: &HttpRequest, desk: &Desk, order: Notice) -> HttpResponse {
    if let Some(answer) = refusal(request, desk) {
        return answer;
    }
    match desk.doors.orders.send(order).await {
        Ok(()) => HttpResponse::Accepted().json(json!({ "accepted": true })),
        Err(_) => unavailable(SILENT),
    }
}

/// Compares without saying by its time where two texts differ.
fn is_same(one: &[u8], two: &[u8]) -> bool {
    let differ = one.iter().zip(two).fold(0, |sum, (a, b)| sum | (a ^ b));
    one.len() == two.len() && differ == 0
}

async fn table_names(desk: web::Data<Desk>) -> HttpResponse {
    HttpResponse::Ok().json(json!({ "tables": desk.tables.names() }))
}

async fn table(desk: web::Data<Desk>, name: web::Path<String>) -> HttpResponse {
    match desk.tables.rows(&name) {
        Some(rows) => {
            let body = [&b"{\"rows\":"[..], &rows, b"}"].concat();
            HttpResponse::Ok().content_type(ContentType::json()).body(body)
        }
        None => not_found(&format!("no table `{name}` on this node")),
    }
}

async fn healthz() -> HttpResponse {
    HttpResponse::Ok().content_type(ContentType::plaintext()).body("ok")
}

async fn readyz(desk: web::Data<Desk>) -> HttpResponse {
    match desk.status().await {
        Some(status) if is_ready(&status) => {
            HttpResponse::Ok().content_type(ContentType::plaintext()).body("ready")
        }
        Some(_) => {
            unavailable("the node is not an active member of a cluster with all that is its own")
        }
        None => unavailable(SILENT),
    }
}

/// Whether it is a member, has what is its own, and stays.
fn is_ready(status: &Status) -> bool {
    let mut own = status.members.iter().filter(|member| member.is_self);
    status.arriving == 0 && own.any(|member| member.state == "active")
}

async fn missing(request: HttpRequest) -> HttpResponse {
    not_found(&format!("nothing at {}", request.path()))
}

async fn refused() -> HttpResponse {
    HttpResponse::MethodNotAllowed()
        .insert_header(("Allow", "GET, HEAD"))
        .json(json!({ "error": "nothing can be changed here" }))
}

async fn not_an_order() -> HttpResponse {
    HttpResponse::MethodNotAllowed()
        .insert_header(("Allow", "POST"))
        .json(json!({ "error": "this is an order: it is posted" }))
}

const SILENT: &str = "the node does not answer";

fn unavailable(reason: &str) -> HttpResponse {
    HttpResponse::ServiceUnavailable().json(json!({ "error": reason }))
}

fn unclear(reason: &str) -> HttpResponse {
    HttpResponse::BadRequest().json(json!({ "error": reason }))
}

fn not_found(reason: &str) -> HttpResponse {
    HttpResponse::NotFound().json(json!({ "error": reason }))
}

#[cfg(test)]
mod tests {
    use actix_web::http::Method;
    use actix_web::{rt, test};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::core::MemberStatus;

    /// A node that answers, with this epoch; or one that does not.
    fn node(epoch: Option<u64>) -> StatusDoor {
        let (ask, mut asked) = mpsc::channel::<oneshot::Sender<Status>>(1);
        rt::spawn(async move {
            let mut unanswered = Vec::new();
            while let Some(reply) = asked.recv().await {
                match epoch {
                    Some(epoch) => reply.send(shown(epoch)).unwrap(),
                    None => unanswered.push(reply),
                }
            }
        });
        ask
    }

    fn shown(epoch: u64) -> Status {
        Status {
            node: "00000000000000ab".to_owned(),
            run: 1,
            cluster: "starling".to_owned(),
            version: "0".to_owned(),
            uptime_ms: 5,
            data_dir: String::new(),
            epoch,
            coordinator: None,
            voters_live: 1,
            voters_needed: 1,
            is_degraded: false,
            moving: 0,
            arriving: 0,
            leaving: 0,
            units_taken: 0,
            bytes_taken: 0,
            pause_median_us: 0,
            pause_worst_us: 0,
            replicas: 2,
            thin: 0,
            unavailable: 0,
            units_lost: 0,
            replicas_kept: 0,
            replica_bytes: 0,
            slots: 1024,
            key_hash: routing::KEY_HASH.to_owned(),
            members: (epoch > 0).then(member).into_iter().collect(),
            topologies: Vec::new(),
            stuck: Vec::new(),
        }
    }

    fn member() -> MemberStatus {
        let address = "127.0.0.1:1".parse().unwrap();
        MemberStatus {
            node: "00000000000000ab".to_owned(),
            run: 1,
            control: address,
            data: address,
            http: None,
            containers: 1,
            state: "active".to_owned(),
            is_voter: true,
            slots: 1024,
            is_self: true,
        }
    }

    /// Doors to a node, and what comes out of the one for orders.
    fn doors(status: StatusDoor) -> (Doors, mpsc::Receiver<Notice>) {
        let (orders, taken) = mpsc::channel(1);
        let folder = std::env::temp_dir().join(format!("starling-http-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let letters = Arc::new(DeadLetters::open(&folder).unwrap());
        (Doors { status, orders, token: TOKEN.to_owned(), letters }, taken)
    }

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn tables() -> Arc<Tables> {
        let tables = Tables::default();
        tables.table("b").lock().put(b"1", br#"{"n":1}"#, 9).unwrap();
        tables.table("b").lock().put(b"2", br#"{"n":2}"#, 9).unwrap();
        tables.table("a b").lock().put(b"", b"{}", 9).unwrap();
        Arc::new(tables)
    }

    /// The status and body of the answer to a request.
    fn answer(method: Method, path: &str, epoch: Option<u64>) -> (u16, String) {
        rt::System::new().block_on(async {
            let patience = Duration::from_millis(epoch.map_or(20, |_| 20_000));
            let desk = Desk { tables: tables(), doors: doors(node(epoch)).0, patience };
            let app = App::new().app_data(web::Data::new(desk)).configure(routes);
            let app = test::init_service(app).await;
            let request = test::TestRequest::with_uri(path).method(method).to_request();
            let response = test::call_service(&app, request).await;
            let status = response.status().as_u16();
            (status, String::from_utf8(test::read_body(response).await.to_vec()).unwrap())
        })
    }

    fn get(path: &str) -> (u16, String) {
        answer(Method::GET, path, Some(3))
    }

    fn error(text: &str) -> String {
        json!({ "error": text }).to_string()
    }

    #[test]
    fn the_status_is_what_the_node_answers() {
        let (code, body) = get("/api/v1/status");
        let status: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!((code, &status["epoch"], &status["slots"]), (200, &json!(3), &json!(1024)));
    }

    #[test]
    fn tables_are_listed_and_shown() {
        assert_eq!(get("/api/v1/tables"), (200, r#"{"tables":["a b","b"]}"#.to_owned()));
        assert_eq!(get("/api/v1/tables/b"), (200, r#"{"rows":[{"n":1},{"n":2}]}"#.to_owned()));
        assert_eq!(get("/api/v1/tables/a%20b"), (200, r#"{"rows":[{}]}"#.to_owned()));
        assert_eq!(get("/api/v1/tables/x"), (404, error("no table `x` on this node")));
    }

    #[test]
    fn a_node_without_a_view_is_healthy_and_not_ready() {
        assert_eq!(get("/healthz"), (200, "ok".to_owned()));
        assert_eq!(get("/readyz"), (200, "ready".to_owned()));
        assert_eq!(answer(Method::GET, "/healthz", Some(0)), (200, "ok".to_owned()));
        let reason =
            error("the node is not an active member of a cluster with all that is its own");
        assert_eq!(answer(Method::GET, "/readyz", Some(0)), (503, reason));
    }

    #[test]
    fn a_node_that_does_not_answer_is_said_to_be_silent() {
        for path in ["/readyz", "/api/v1/status"] {
            assert_eq!(answer(Method::GET, path, None), (503, error("the node does not answer")));
        }
        assert_eq!(answer(Method::GET, "/api/v1/tables/b", None).0, 200);
    }

    /// The answer to an order, and what the node was told.
    fn order(path: &str, token: Option<&str>) -> (u16, Option<Notice>) {
        rt::System::new().block_on(async {
            let (doors, mut taken) = doors(node(Some(3)));
            let desk = Desk { tables: tables(), doors, patience: PATIENCE };
            let app = App::new().app_data(web::Data::new(desk)).configure(routes);
            let app = test::init_service(app).await;
            let mut request = test::TestRequest::post().uri(path);
            if let Some(token) = token {
                request = request.insert_header(("Authorization", format!("Bearer {token}")));
            }
            let response = test::call_service(&app, request.to_request()).await;
            (response.status().as_u16(), taken.try_recv().ok())
        })
    }

    #[test]
    fn an_order_needs_the_token() {
        assert!(matches!(order("/api/v1/drain", Some(TOKEN)), (202, Some(Notice::Stop))));
        let (code, told) = order("/api/v1/recover", Some(TOKEN));
        assert_eq!(code, 202);
        assert!(matches!(told, Some(Notice::Core(Input::RecoverUnsafe))));
        for wrong in
            [None, Some(""), Some("0"), Some(&TOKEN[1..]), Some("1123456789abcdef0123456789abcdef")]
        {
            assert!(matches!(order("/api/v1/drain", wrong), (401, None)), "{wrong:?}");
        }
        assert_eq!(get("/api/v1/drain"), (405, error("this is an order: it is posted")));
    }

    #[test]
    fn everything_else_is_refused_in_json() {
        assert_eq!(get("/api/v1/nothing"), (404, error("nothing at /api/v1/nothing")));
        assert_eq!(get("/").0, 404);
        let changed = answer(Method::POST, "/api/v1/status", Some(3));
        assert_eq!(changed, (405, error("nothing can be changed here")));
        assert_eq!(answer(Method::HEAD, "/healthz", Some(3)).0, 200);
    }

    #[test]
    fn it_serves_on_a_socket_until_it_is_stopped() {
        let answer = rt::System::new().block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = serve(listener, tables(), doors(node(Some(3))).0);
            let handle = server.handle();
            let serving = rt::spawn(server);
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET /api/v1/tables/b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            handle.stop(true).await;
            serving.await.unwrap().unwrap();
            answer
        });
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/json\r\n"), "{answer}");
        assert!(answer.ends_with(r#"{"rows":[{"n":1},{"n":2}]}"#), "{answer}");
    }
}
