// Starts the page: each part attaches itself to what the server has rendered.
import { connect } from "./stream.js";
import { attachScroll } from "./scroll.js";
import { attachDock } from "./dock.js";
import { attachComposer } from "./composer.js";
import { attachKeys } from "./keys.js";
import { attachView } from "./view.js";

attachView();
attachScroll();
attachDock();
attachComposer();
attachKeys();
if (document.getElementById("log")) connect();
